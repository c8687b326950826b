"""How batches go from the threads that made them to the training loop.

Of batches on a GPU the loop waits for what threads gave to their streams. And a batch has what the loop wrote until it
is due: stages that read memory which the loop may write say so (`Stage.watched`), with how often it was written. Where
they run ahead of the loop, that is noted with the batch before they read. When the batch is handed out the loop
compares numbers, and where one differs it makes the batch anew, from that stage on, in its own thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from headrace.ops.gpu import record, resolved
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data import CPU, MiniBatch, Place
from headrace.pipeline.data.arrays import version_of_tensor
from headrace.pipeline.plan import BatchSource, HeadraceError, InputError, Watched
from headrace.pipeline.plan.checks import tables_of
from headrace.pipeline.plan.rewriting import Rewriting
from headrace.pipeline.run.nodes import Note, Step, Work, drawn

#: Batches of a loader that are made twice before a warning says what costs nothing.
MANY = 16


def hand_over(place: Place | None) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Return what a thread does last with batches that lie at a place, and the one that takes them first.

    Of batches on a GPU the thread records an event, since what it gave to its current stream may not be done; the other
    thread, which may have another current stream, lets that one wait. In memory of the host there is nothing to do.
    """
    if place is None or place.kind != "cuda":
        return (), ()
    from headrace.pipeline.lowered.gpu.on_stream import OnItsWay

    # With its index: a worker thread may have another current device.
    device = torch.empty(0, device=resolved(str(place))).device

    def leave(work: Work) -> Work:
        return replace(work, batch=OnItsWay(work.batch, record(device)))

    def take(work: Work) -> Work:
        return replace(work, batch=work.batch.arrived())

    return (leave,), (take,)


class Reading:
    """A stage that reads, ahead of the training loop, what that may write.

    Parameters
    ----------
    name
        The stage, as the user wrote it.
    watched
        What it reads.
    """

    def __init__(self, name: str, watched: Sequence[Watched]) -> None:
        self._name = name
        self._watched = watched
        self._versions = [one.version for one in watched]
        self._steps: tuple[Step, ...] = ()
        self._refused: str | None = None
        self._may_change = False
        self._times = 0

    def made_anew_by(self, steps: tuple[Step, ...], *, refused: str | None, may_change: bool) -> None:
        """Learn of the steps that make a batch anew, from this stage to the training loop.

        Parameters
        ----------
        steps
            They.
        refused
            A stage among them that cannot run once more, as one that all ranks run together, or None.
        may_change
            Whether one of them is a function of the user, which may change what it is given.
        """
        self._steps, self._refused, self._may_change = steps, refused, may_change

    def versions(self) -> list[int | None]:
        """Return how often each thing was written."""
        return [version() for version in self._versions]

    def noting(self, step: Step) -> Step:
        """Return the step of the stage, which notes first what it is about to read."""

        def noted(work: Work) -> Work:
            contents = _contents(work.batch) if self._may_change else []
            work.notes = (*work.notes, Note(self, self.versions(), work.batch, work.records, contents))
            return step(work)

        return noted

    def anew(self, note: Note, stale: Work) -> Work:
        """Return what the steps make now of what a note of a piece of work holds.

        Raises
        ------
        HeadraceError
            If other ranks would have to make it anew, too, or a function has changed what the batch is made of.
        """
        if self._refused is not None:
            raise HeadraceError(
                f"{self._expected(note, stale)}, and {self._refused} cannot make it once more by itself; put "
                f".prefetch() before {self._name}, so that it reads when a batch is due, or write between epochs"
            )
        if self._may_change and _contents(note.batch) != note.contents:
            raise HeadraceError(
                f"{self._expected(note, stale)}, and a transform has changed tensors of it in place, so it cannot "
                f"be made anew; return batch.replace(...) of new tensors, or put .prefetch() before {self._name}"
            )
        work = Work(note.batch, stale.epoch, stale.index, stale.state, note.records)
        for step in self._steps:
            work = step(work)
        self.count(note, work, len(note.records))
        return work

    def count(self, note: Note, work: Work, record: int) -> None:
        """Count a batch that was made anew, from the stage of a record on."""
        work.records[record].counts["read_again"] = 1
        self._times += 1
        if self._times == MANY:
            warn_user(
                f"{self._name}: {MANY} batches were read ahead, and once more when they were due, as the training loop "
                f"has written {self._written(note)}; put .prefetch() before {self._name}, so that it reads when a "
                "batch is due, and sampling alone is ahead",
            )

    def _expected(self, note: Note, stale: Work) -> str:
        return (
            f"{self._name}: expected {self._written(note)} to stay as it was until batch {stale.index} of epoch "
            f"{stale.epoch} is handed out, which was read ahead; the training loop has written it"
        )

    def _written(self, note: Note) -> str:
        pairs = zip(self._watched, note.versions, strict=True)
        return ", ".join(one.what for one, version in pairs if one.version() != version)


class Drawing(Reading):
    """The source, where it draws from what a training loop may write."""

    def __init__(self, name: str, source: BatchSource) -> None:
        super().__init__(name, source.watched())
        self._source = source

    def anew(self, note: Note, stale: Work) -> Work:
        """Return what the steps make now of the batch, drawn once more."""
        start = time.perf_counter()
        again = drawn(self._name, self._source.batch_at(stale.epoch, stale.index), stale.state, start)
        return super().anew(note._replace(batch=again.batch, records=again.records), stale)

    def count(self, note: Note, work: Work, record: int) -> None:
        """Count a batch that was made anew: the record of the source is the one before."""
        super().count(note, work, record - 1)


def up_to_date(work: Work) -> Work:
    """Return a batch that is due, or the same made anew where what was read for it was written since."""
    for note in work.notes:
        if note.reading.versions() != note.versions:
            return note.reading.anew(note, work)
    return work


def _contents(batch: object) -> list[int | None]:
    return [version_of_tensor(tensor) for tensor in _shared(batch)]


def _shared(batch: object) -> Iterator[Tensor]:
    """Yield the tensors that a function behind may change in a batch: what blocks hold nobody changes."""
    if not isinstance(batch, MiniBatch):
        return
    for value in (batch.seeds, batch.n_id, batch.y, batch.seed_time, *batch.node.values()):
        if isinstance(value, Tensor):
            yield value
    for layers in batch.edge.values():
        yield from layers


class Tables:
    """The arrays of users of which stages have tables, such as the times that rows are sorted by, and features.

    Torch counts what it writes, and each batch is checked for that; all other writes are seen here. An epoch in which
    one was made had old values and new ones, so it is refused at its end. What torch has written by then came behind
    the last batch, and is refused when the next epoch begins.
    """

    def __init__(self, rewriting: Rewriting) -> None:
        stages = *rewriting.plan.stages, *rewriting.final.stages
        self._seen = tables_of(stages)
        wants = [stage.wants for stage in stages]
        sources = [source for wanted in wants if wanted is not None for source in wanted.sources()]
        self._sources = tuple({id(source): source for source in sources}.values())

    def check(self) -> None:
        """Refuse tables of which one was written.

        Raises
        ------
        InputError
            Or a subclass, saying which.
        """
        for one in self._seen:
            one.check()

    def check_begin(self, failed: Callable[[BaseException], None]) -> None:
        """Refuse to begin where one of them was written, and let features drop copies of rows that were.

        Parameters
        ----------
        failed
            Called with the error.

        Raises
        ------
        InputError
            Or a subclass, saying which.
        """
        try:
            self.check()
            for source in self._sources:
                source.check_copies()
        except InputError as error:
            failed(error)
            raise

    def check_end(self) -> None:
        """Refuse an epoch during which one of them was written, past torch's count.

        Raises
        ------
        InputError
            Or a subclass, saying which.
        """
        for one in self._seen:
            if not one.is_counted_as_written:
                one.check()


def give_back_caches(rewriting: Rewriting) -> None:
    """Give back the CPU memory of caches that passes added, also where later passes read without them."""
    for stage in {id(stage): stage for one in rewriting.records for stage in one.plan.stages}.values():
        written = stage.origin.wants
        if stage.wants is None or written is None or stage.wants.store is written.store:
            continue
        from headrace.pipeline.storage.cached_feature import CachedFeature  # loaded by the pass that added one

        own = {id(source) for source in written.sources()}
        for source in stage.wants.sources():
            if id(source) not in own and isinstance(source, CachedFeature) and source.cache_place == CPU:
                source.give_back()
