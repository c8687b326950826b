"""The loader: runs a plan, epoch by epoch, from any batch on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from traceback import format_exception
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from headrace.ops.errors import PeerError, PlanError
from headrace.ops.names import no_attribute
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data import MiniBatch, check_kind, check_switches, whole_number
from headrace.pipeline.data.dynamic_sizes import mark_where_compiled
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan import LAST_EPOCH, HeadraceError, Machine, Plan, source_of
from headrace.pipeline.plan.fingerprint import digest_of, fingerprint
from headrace.pipeline.plan.foreign_words import instead_on_loader
from headrace.pipeline.run.base_node import BaseNode
from headrace.pipeline.run.checkpoint import check_state, make_state, with_seed, with_seed_of_state
from headrace.pipeline.run.hand_over import give_back_caches
from headrace.pipeline.run.iteration import Iteration, Position, RunningIteration
from headrace.pipeline.run.lower import lower
from headrace.pipeline.run.nodes import Work, close_node, patience
from headrace.pipeline.run.ranks import at_place, place_of, ranks_of, warn_of_detour, watch_of
from headrace.pipeline.run.rewritten import rewritten
from headrace.pipeline.run.stats import Counters, Stats, Trace

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar

    from headrace.pipeline.distributed.channel import Comm
    from headrace.pipeline.partition.edge_partition import EdgePartition
    from headrace.pipeline.partition.partition import Partition
    from headrace.pipeline.plan.rules import Pass

    # Without brackets a Loader is one of MiniBatches.
    Batch = TypeVar("Batch", default=MiniBatch)
else:
    from typing import TypeVar

    Batch = TypeVar("Batch")


class Loader(Generic[Batch]):
    """Iterates over the minibatches of a plan. ``plan.loader(...)`` returns it and documents the parameters.

    A plan that ends in ``to_pyg()`` or ``to_dgl()`` yields objects of PyG or DGL; its loader is a ``Loader[Any]``.

    Each ``iter(loader)`` runs one epoch. The first is epoch 0, or the position set by :meth:`load_state_dict` or
    :meth:`set_epoch`. Each further one is the next epoch, also after a ``break``. One iteration can run at a time: a
    new one ends the old one, and is refused while another thread runs that.

    >>> import headrace as hr
    >>> with hr.ItemSampler(10, batch_size=4).loader() as loader:
    ...     [batch.seeds.tolist() for batch in loader]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    def __init__(
        self,
        plan: Plan,
        *,
        machine: Machine | None = None,
        num_threads: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        comm: Comm | None = None,
        partition: Partition | EdgePartition | None = None,
        progress: bool = False,
        passes: Mapping[str, bool | Pass] | None = None,
    ) -> None:
        if machine is not None:
            advice = "leave it out, or pass hr.Machine(cores=...)"
            check_kind(machine, Machine, "loader: expected machine to be an hr.Machine", advice, PlanError)
        rank, world_size, in_job = place_of(comm, machine, rank, world_size)
        machine = at_place(machine, rank, world_size)
        self._fingerprint: dict[str, str] | None = None
        self._passes = passes
        # They come first, so that a rank that cannot go on can say so to the others, who would wait for it.
        self._ranks = ranks = ranks_of(plan, passes or {}, comm, rank, world_size, in_job=in_job)
        if ranks.comm is not None:
            machine = replace(machine, gpu_channel=ranks.comm.reaches_gpus)
        try:
            self._rewriting, self._tables, self._settings = rewritten(
                plan, machine, passes or {}, partition, num_threads=num_threads, comm=ranks.comm
            )
            source = source_of(self._rewriting.final)
        except Exception as error:
            ranks.refuse("".join(format_exception(error)))
            raise
        seed = ranks.agree(self._rewriting.plan, self._rewriting.final)
        if ranks.comm is not None:
            warn_of_detour(self._rewriting)
        if seed is not None:
            self._settings = replace(self._settings, rank_items=ranks.num_items, rank_labels=ranks.labels)
            if not source.seed_given:
                self._take(with_seed(plan, seed))
        self._node, self._source, self._channels = lower(self._rewriting, self._settings)
        shares = None if ranks.comm is not None else self._source.smallest_share
        self._watch = watch_of(ranks.comm, rank, world_size, shares)
        self._progress = progress
        self._counters = Counters()
        self._trace = Trace()
        self._position = Position(self._source.count)
        # Whether batches were handed out since the position was set by something else than handing out batches.
        self._started = False
        self._used = False  # whether it was iterated since its position was set from outside
        self._running = RunningIteration()

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self._position.epoch

    def __len__(self) -> int:
        """Return the number of batches in a whole epoch.

        Raises
        ------
        PlanError
            If the source does not know, as a torchdata node, or shuffled items with a budget. It is a TypeError, too.
        """
        if self._source.num_batches is None:
            raise PlanError(
                "len(loader): expected a source that knows its number of batches, got "
                f"{source_of(self._rewriting.plan).name}: shuffled items with a budget, a source of your own with "
                "num_batches = None, or a torchdata node; count them as they come"
            )
        return self._source.num_batches

    def __bool__(self) -> bool:
        return True

    if not TYPE_CHECKING:  # for type checkers a loader is no iterator, and has no items

        def __next__(self) -> NoReturn:
            raise PlanError(
                "expected an iterator, got a loader; iterate with `for batch in loader`, or take one batch by "
                "next(iter(loader))"
            )

        def __getitem__(self, index: object) -> NoReturn:
            raise PlanError(
                f"expected a loader to be iterated, got loader[{index!r}]; iterate with `for batch in loader`, or take "
                "the first batch by next(iter(loader)): batches have no index to look them up by"
            )

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute("a loader", name, lambda: dir(type(self)), instead_on_loader)

    def __iter__(self) -> Iterator[Batch]:
        with self._running.ended_for("iter(loader)"):
            for channel in self._channels:
                channel.open()
            self._tables.check_begin(self._fail)
            # A thread that has just lost its iteration to `close` may yet move the position that it had.
            self._position = self._position.copy()
            if self._left_midway():
                self._position.move(self._position.epoch + 1)
            self._started = False
            self._used = True
            loop = self._ranks.loop(self._position.epoch, self._position.batch)
            calls = self._received, self._tables.check_end, self._fail
            return self._running.begin(
                Iteration(self._node, self._position, *calls, loop=loop, progress=self._progress)
            )

    def epochs(self, num_epochs: int) -> Iterator[int]:
        """Yield the remaining epochs of ``num_epochs``, so that a training loop resumes at the position of its state.

        It counts all epochs of the loader since epoch 0. Epochs iterated before count, also one that ended after its
        first batch: call `set_epoch` to begin again. A warning reports that no epoch remains.

        >>> import headrace as hr
        >>> loader = hr.ItemSampler(4, batch_size=2, shuffle=True).loader()
        >>> for epoch in loader.epochs(2):
        ...     print(epoch, len([batch for batch in loader]))
        0 2
        1 2
        """
        num_epochs = whole_number(num_epochs, "epochs: the number of epochs", 0, HeadraceError)
        first = self.epoch + (1 if self._left_midway() else 0)
        if self._used and first >= num_epochs > 0:
            warn_user(
                f"epochs({num_epochs}): expected a loader whose next epoch is below {num_epochs}, got one whose next "
                f"epoch is {first}, so nothing is left; call loader.set_epoch(0) to begin anew, or "
                f"epochs({first + num_epochs}) to go on",
            )
        for epoch in range(first, num_epochs):
            if self.epoch != epoch:
                self.set_epoch(epoch)
            yield epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, which begins with the first batch; with several ranks, on all of them.

        ``set_epoch(0)`` before each validation epoch gives all of them the same negatives and neighbours.

        Raises
        ------
        HeadraceError
            If it is not an integer of at least 0, or while another thread iterates over the loader.
        """
        epoch = whole_number(epoch, "set_epoch: the epoch", 0, HeadraceError, LAST_EPOCH)
        with self._running.ended_for("set_epoch"):
            self._go_to(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch handed out: a few integers and a fingerprint of the plan.

        It can be loaded in a new process, with other passes, thread counts and (for ``batch_size``, not
        ``batch_size_per_rank``) another number of ranks.
        """
        epoch, source = self._position.place
        return make_state(
            epoch=epoch,
            source=None if source is None else self._source.saved(source),
            batch_size=self._source.batch_size,
            seed=self._settings.seed,
            num_ranks=len(self._ranks.own) or None,
            plan=self._plan_fingerprint(),
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue, in the next iteration, with the batch that follows the position of the state.

        A plan without a given seed takes the seed of the state, because torch's seed may differ in each process. All
        ranks load the state: if an iteration begins elsewhere on one of them, a `PeerError` names the places.

        Raises
        ------
        StateError
            If the state belongs to another plan; the message names the stage that differs. The loader is then
            unchanged.
        HeadraceError
            While another thread iterates over the loader.
        """
        plan = with_seed_of_state(self._rewriting.plan, state)
        is_other = plan is not self._rewriting.plan
        check_state(
            state,
            count=(lambda _: self._source.num_batches) if is_other else self._source.count,
            batch_size=self._source.batch_size,
            seed=source_of(plan).seed,
            num_ranks=len(self._ranks.own) or None,
            plan=self._fingerprint_of(plan) if is_other else self._plan_fingerprint(),
        )
        with self._running.ended_for("load_state_dict"):
            if is_other:
                self.close()
                self._take(plan)
                self._node, self._source, self._channels = lower(self._rewriting, self._settings)
            source = state["source"]
            if source is not None:
                source = {**source, "batch": int(source["batch"])}  # as it was, whatever integers a file has made of it
            self._go_to(int(state["epoch"]), source)

    def explain(self, *, facts: bool = False) -> str:
        """Return a text with the plan that runs, the plan as written, and the changes of each pass.

        With `facts`, each stage of the plan that runs is followed by the facts known about the batch there.
        """
        return self._rewriting.explain(facts=facts)

    def stats(self, *, reset: bool = False) -> Stats:
        """Return the counts of the stages for the batches handed out so far, and how long the training loop waited.

        They print as a table, with rates and the share of waiting. Counting does not wait for a GPU: hits and misses
        of a GPU cache are those reported so far, without the last reads. ``CachedFeature.stats`` waits and has all.

        Parameters
        ----------
        reset
            Set all counts to zero, for example after the first epoch, in which caches are empty.
        """
        check_switches("stats", reset=reset)
        stats = self._counters.stats()
        if reset:
            self._counters = Counters()
        return stats

    def profile(self, path: str | Path) -> Path:
        """Write a timeline of the recent batches and return the path of its file.

        It has the stages by thread, the waits and the work of the training loop, and the number of finished batches.

        Parameters
        ----------
        path
            ``.json`` for Perfetto or chrome://tracing; ``.png``, ``.svg`` or ``.pdf`` for a picture (matplotlib, the
            extra ``plot``). With several ranks each writes its own file: ``trace.rank0.json``.

        Raises
        ------
        PlanError
            If the name ends otherwise, or its folder does not exist.
        """
        return self._trace.write(path, self._settings.rank, self._settings.world_size)

    def node(self) -> BaseNode[Batch]:
        """Return a torchdata node that yields this loader's batches, one epoch per ``reset``."""
        from headrace.pipeline.run.base_node import LoaderNode

        return LoaderNode(self)

    def close(self) -> None:
        """End the running iteration and its background threads, and release the channels made for them.

        Caches of rows from disk that the loader added give back their memory; another iteration fills them again.

        The loader can be iterated again. If ranks make batches together, either all of them close it or none, because
        they make new channels together when they iterate again.
        """
        self._close(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._fail(error)
        self._close(patience(error))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse copies and pickles, which would share threads and channels, or lose them.

        Raises
        ------
        HeadraceError
            Saying what can be copied and pickled in its place.
        """
        del protocol
        raise HeadraceError(
            "expected something that can be copied or pickled, got a loader, which holds threads and an iteration; "
            "copy or pickle its plan and loader.state_dict(), and make a new loader: plan.loader(), "
            "loader.load_state_dict(state)"
        )

    def __repr__(self) -> str:
        return f"Loader(\n{self._rewriting.plan!r}\n)"

    def _close(self, timeout: float | None) -> None:
        self._running.end(timeout)
        close_node(self._node, timeout)
        if timeout is None:  # otherwise a thread may yet read
            give_back_caches(self._rewriting)
        for channel in self._channels:
            channel.close()

    def _take(self, plan: Plan) -> None:
        """Let the loader run a plan that differs from its own in the seed alone."""
        self._rewriting = rewrite(plan, self._rewriting.machine, self._passes)
        source = source_of(self._rewriting.final)
        self._settings = replace(self._settings, seed=source.seed, source=source)
        self._fingerprint = None

    def _fail(self, error: BaseException) -> None:
        """Report an error to the other ranks, who would wait for this one, and to its own threads."""
        if not isinstance(error, PeerError):
            self._ranks.fail("".join(format_exception(error)))

    def _plan_fingerprint(self) -> dict[str, str]:
        if self._fingerprint is None:
            self._fingerprint = self._fingerprint_of(self._rewriting.plan)
        return self._fingerprint

    def _fingerprint_of(self, plan: Plan) -> dict[str, str]:
        """Return the digests of a plan's stages, that of the source with what ranks bring of their own."""
        digests = fingerprint(plan)
        if self._ranks.own:
            name = plan.names[0]
            digests[name] = digest_of((digests[name], self._ranks.own))
        return digests

    def _received(self, work: Work, waited: float, worked: float) -> None:
        """Count a batch that the training loop received after waiting some seconds for it."""
        self._started = True
        self._watch.look(work.batch)
        mark_where_compiled(work.batch)
        self._counters.add(work.records, waited, worked)
        self._trace.add(work, waited)

    def _left_midway(self) -> bool:
        """Whether the last iteration was left in the middle of an epoch, which the next one does not go on with."""
        return self._started and self._position.source is not None

    def _go_to(self, epoch: int, source: Mapping[str, Any] | None = None) -> None:
        """Let the next iteration begin there."""
        self._position = Position(self._source.count)
        self._position.move(epoch, source)
        self._started = self._used = False
