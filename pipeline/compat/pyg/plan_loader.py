"""What the loaders of this package share: a DataLoader of PyG whose batches come from a plan."""

from __future__ import annotations

import operator
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from numbers import Integral
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from headrace.ops.forks import ProcessLock
from headrace.ops.warn_user import warn_user
from headrace.pipeline.compat.pyg.attributes import check_attributes, check_overrides, is_overridden
from headrace.pipeline.compat.pyg.finish import Finish, FinishAlone
from headrace.pipeline.compat.pyg.torch_arguments import check_called, checked_arguments
from headrace.pipeline.compat.pyg.torch_samplers import TorchSampler
from headrace.pipeline.compat.pyg.unknown_arguments import check_known
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.data.graph_sources import warn_of_several_graphs
from headrace.pipeline.plan import LAST_EPOCH, InputError, Plan
from headrace.pipeline.run.checkpoint import seed_of_state
from headrace.pipeline.run.loader import Loader
from headrace.pipeline.stages.item_sampler import ItemSampler

_LARGEST_SEED = (1 << 64) - 1

#: Batches that a worker is ahead, where the user does not say: torch's number.
PREFETCH_FACTOR = 2


#: Arguments of torch's DataLoader that are for processes, with the defaults that scripts may as well pass.
_UNUSED: dict[str, Any] = {"worker_init_fn": None, "timeout": 0, "multiprocessing_context": None, "in_order": True}

#: What a loader of headrace has and one of PyG has not.
_OF_RUNNERS = ("close", "epoch", "epochs", "explain", "node", "profile", "stats")


class PlanLoader(DataLoader[Any]):
    """Mixed in before a loader of PyG: keeps its arguments and attributes, and runs a plan in the place of processes.

    Its own keywords stand in `settle`. What torch's DataLoader takes beside is followed: ``num_workers`` are threads,
    ``sampler`` and ``batch_sampler`` say the order, ``pin_memory`` pins in the workers.
    """

    #: Methods that PyG's loader calls for each batch, and a plan does not.
    not_called: ClassVar[tuple[str, ...]] = ("collate_fn", "_get_iterator")

    data: Any
    seed: int | None
    num_threads: int | None
    prefetch: bool | int | None
    transform: Any = None
    transform_sampler_output: Any = None
    filter_per_worker: bool = True

    def settle(
        self,
        seed: int | None,
        num_threads: int | None,
        prefetch: bool | int | None,
        arguments: dict[str, Any],
    ) -> dict[str, Any]:
        """Keep the arguments that PyG does not know, and return those of torch's DataLoader; before its constructor.

        Raises
        ------
        InputError
            For arguments that have no meaning here.
        PlanError
            For arguments that neither PyG nor torch has.
        """
        check_known(type(self), arguments)
        check_overrides(self, self.not_called)
        if not (prefetch is None or isinstance(prefetch, bool)):
            prefetch = whole_number(prefetch, f"{type(self).__name__}: prefetch", 0, InputError)
        self.seed, self.num_threads, self.prefetch = _python_number(seed), _python_number(num_threads), prefetch
        self.follows_sampler = any(arguments.get(name) is not None for name in ("sampler", "batch_sampler"))
        self._loader: Loader[Any] | None = None
        self._made_by: tuple[Any, ...] = ()  # the settings of that
        self._running: weakref.ref[Any] | None = None  # the last iteration
        self._began = 0  # the epoch of that
        self._beginning = ProcessLock()  # held while an iteration looks whether another one runs
        if arguments.get("batch_size", 1) is None and arguments.get("batch_sampler") is None:
            raise InputError(
                f"{type(self).__name__}: expected a batch_size, got None, which turns batches off; leave it out for "
                "batches of one, or call loader([position]) for a single one"
            )
        arguments = checked_arguments(type(self).__name__, arguments)
        unused = [name for name, default in _UNUSED.items() if arguments.get(name, default) != default]
        if unused:
            warn_user(
                f"{type(self).__name__}: expected no {', '.join(unused)}, got it without effect, as workers are "
                "threads of this process, which make batches in their order and are waited for; leave it out",
            )
        # Lightning makes a loader anew of its attributes, these of torch's DataLoader among them.
        return {name: value for name, value in arguments.items() if name not in ("dataset", "collate_fn")}

    @property
    def items(self) -> Any:
        """The items of the plan's source, in a form that ``ItemSampler`` takes."""
        raise NotImplementedError

    @property
    def item_times(self) -> Tensor | None:
        """The time of each item; None if times are not used, or are those of the nodes."""
        return None

    @property
    def source(self) -> Plan:
        """The source of the plan: the items in the order given by the arguments."""
        if self.follows_sampler:
            assert self.batch_sampler is not None  # see settle
            return TorchSampler(self.items, self.batch_sampler, seed=self.settled_seed, time=self.item_times)
        return ItemSampler(
            self.items,
            batch_size=self.batch_size,
            shuffle=self.shuffles,
            drop_last=self.drop_last,
            seed=self.settled_seed,
            time=self.item_times,
        )

    @abstractmethod
    def sampled(self, source: Plan) -> Plan:
        """Return the plan up to the ``SamplerOutput``."""

    def described(self, out: Any) -> Any:
        """Return a ``SamplerOutput`` of the plan, which only has positions of items, with the metadata of PyG."""
        return out

    @abstractmethod
    def batch_of(self, out: Any, num_threads: int) -> Any:
        """Return the ``SamplerOutput`` with its attributes."""

    def joined(self, out: Any, num_threads: int) -> Any:
        """Return the batch of a ``SamplerOutput``, before the user's transform."""
        if self.transform_sampler_output is not None:
            out = self.transform_sampler_output(out)
        return self.batch_of(out, num_threads)

    def filter_fn(self, out: Any) -> Any:
        """Return the whole batch of a ``SamplerOutput``; a method of a subclass makes all batches.

        With ``num_workers=0`` such a method runs in the training loop, as with PyG.
        """
        return self._transformed(self.joined(out, self.num_threads or 1), 1)

    @property
    def plan(self) -> Plan:
        """The plan that the loader runs."""
        plan = self.sampled(self.source)
        of_workers = self.num_workers > 0 and self.filter_per_worker
        own = is_overridden(self, "filter_fn")  # which transforms, too
        # What can be seen from outside is done where and when PyG does it; but functions that may draw random numbers
        # run in the training loop, each batch with a stream of its own where PyG has a worker's.
        draws = own or self.transform_sampler_output is not None
        join = FinishAlone if of_workers and draws else Finish
        stages: list[Finish] = [join(self._filtered if own else self._made, "join_attributes")]
        if self.pin_memory and torch.cuda.is_available():
            stages.append(Finish(_pinned, "pin_memory"))
        ahead = len(stages) if of_workers and not draws and not self.learns else 0
        if self.transform is not None and not own:
            transformed = self._transformed
            stages.append(FinishAlone(transformed, "transform", 1) if of_workers else Finish(transformed, "transform"))
        for stage in stages[:ahead]:
            plan = plan.then(stage)
        plan = self._with_prefetch(plan)
        for stage in stages[ahead:]:
            plan = plan.then(stage)
        return plan

    @property
    def learns(self) -> bool:
        """Whether an attribute is trained: its rows are then read when the batch is due, after the last step."""
        stores = getattr(self.sliced, "stores", ())
        return any(isinstance(one, Tensor) and one.requires_grad for store in stores for one in store.values())

    @property
    def samples_ahead(self) -> bool:
        """Whether the sampler may run before the batch is due: it draws nothing from the generators of the process."""
        return True

    @property
    def settled_seed(self) -> int:
        """The given seed, otherwise that of the given generator, otherwise torch's when the loader was made."""
        if self.seed is not None:
            return self.seed
        return self._seed_of_torch

    def _with_prefetch(self, plan: Plan) -> Plan:
        if self.prefetch is False or self.prefetch == 0 or not self.samples_ahead:
            return plan.prefetch(workers=0)
        workers = max(self.num_workers, 1)
        depth = workers * (self.prefetch_factor or PREFETCH_FACTOR)
        if self.prefetch is not None and self.prefetch is not True:
            depth = self.prefetch
        # Without workers batches are made ahead where that pays; a user who wants some has them at once.
        return plan.prefetch(workers=workers, depth=depth, eager=self.num_workers > 0)

    @property
    def shuffles(self) -> bool:
        """Whether every epoch has another order."""
        return isinstance(self.sampler, torch.utils.data.RandomSampler)

    def _made(self, out: Any, num_threads: int) -> Any:
        return self.joined(self.described(out), num_threads)

    def _filtered(self, out: Any, num_threads: int) -> Any:
        del num_threads
        return self.filter_fn(self.described(out))

    def _transformed(self, data: Any, num_threads: int) -> Any:
        del num_threads
        return data if self.transform is None else self.transform(data)

    def check_worker_number_rationality(self) -> None:
        """Do nothing: workers are threads that share the machine's cores, so no number needs a warning."""

    @property
    def runner(self) -> Loader[Any]:
        """The loader of headrace that runs the plan: `stats`, `explain`, `profile`, `close`.

        It is a new one, with its own stats, in the first iteration after a change of `settings`, and in an iteration
        that begins while another one runs.
        """
        if self._loader is None:
            self._loader, self._made_by = self._new_runner(), self.settings
        return self._loader

    @property
    def settings(self) -> tuple[Any, ...]:
        """The attributes that a user may change between epochs, as with PyG: objects, and values as text."""
        own = vars(self).get("filter_fn")
        of_torch = self.num_workers, self.prefetch_factor, self.pin_memory
        return (*of_torch, self.transform, self.transform_sampler_output, self.filter_per_worker, self.learns, own)

    def _new_runner(self) -> Loader[Any]:
        # As PyG's loaders: who trains on several ranks gives each its items, or a sampler that does.
        return Loader(self.plan, rank=0, world_size=1, num_threads=self.num_threads)

    def _runner_beside(self) -> Loader[Any] | None:
        """Return a runner of the epoch after that of the running iteration, which goes on; None where none runs.

        The state and the stats of the loader are those of the iteration that began last, as this runner takes the place
        of the other one.
        """
        running = None if self._running is None else self._running()
        if self._loader is None or running is None or running.is_finished:
            return None
        place = self._loader.state_dict()
        new, settings = self._new_runner(), self.settings
        # An iteration that has handed out nothing is still at the start of its epoch.
        new.set_epoch(max(self._began + 1, place["epoch"] + (place["source"] is not None)))
        self._loader, self._made_by = new, settings
        return new

    def _settled_runner(self) -> Loader[Any]:
        """Return the runner for the settings as they are now, at the place where the last one would have gone on."""
        old, settings = self.runner, self.settings
        if all(_same(*pair) for pair in zip(self._made_by, settings, strict=True)):
            return old
        new = self._new_runner()
        epoch = next(old.epochs(LAST_EPOCH))  # which also leaves an epoch that was broken off
        place = old.state_dict()
        new.set_epoch(epoch)
        if place["source"] is not None:  # behind a batch whose state was loaded
            new.load_state_dict({**new.state_dict(), "epoch": epoch, "source": place["source"]})
        old.close()
        self._loader, self._made_by = new, settings
        return new

    @property
    def sliced(self) -> Any:
        """The data whose rows batches take."""
        return self.data

    def prepare(self) -> None:
        """Refuse arguments that do not fit together, at the end of the constructor."""
        who = type(self).__name__
        check_called(who, transform=self.transform, transform_sampler_output=self.transform_sampler_output)
        check_attributes(self.sliced, who)
        warn_of_several_graphs(self.sliced, who)
        generator = self.generator
        seed = torch.initial_seed() if generator is None else generator.initial_seed()
        self._seed_of_torch = seed & _LARGEST_SEED
        if self._has_batches():
            _ = self.runner

    def _has_batches(self) -> bool:
        try:
            return len(self) > 0
        except TypeError:  # of a sampler without a length, which torch takes, too
            return len(self.dataset) > 0  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if not self._has_batches():
            return iter(())
        with self._beginning.held():
            runner = self._runner_beside() or self._settled_runner()
            iteration = iter(runner)
            self._running, self._began = weakref.ref(iteration), runner.epoch
        return iteration

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch; see `Loader.state_dict`."""
        return self.runner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue, in the next iteration, after the position of the state; see `Loader.load_state_dict`.

        A loader that was given neither `seed` nor `generator` takes the seed of the state.
        """
        runner, own_seed = self._settled_runner(), self._seed_of_torch
        seed = seed_of_state(state, own_seed) if self.seed is None and self.generator is None else None
        if seed is None or seed == own_seed:
            runner.load_state_dict(state)
            return
        self._seed_of_torch = seed  # of the plan from here on
        try:
            new, settings = self._new_runner(), self.settings
            new.load_state_dict(state)
        except BaseException:
            self._seed_of_torch = own_seed
            raise
        runner.close()
        self._loader, self._made_by = new, settings

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, which begins with the first batch."""
        self._settled_runner().set_epoch(epoch)

    def __getstate__(self) -> dict[str, Any]:
        # Threads stay where they are; a copy begins at its first epoch.
        return {**self.__dict__, "_loader": None, "_made_by": (), "_running": None, "_beginning": ProcessLock()}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name in _OF_RUNNERS:
                raise AttributeError(
                    f"{type(self).__name__} has no attribute {name!r}; write loader.runner.{name}, of the loader of "
                    "headrace that makes the batches"
                )
            object.__getattribute__(self, name)  # raises what Python does, or what a property did

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _python_number(value: Any) -> Any:
    """Return NumPy's and other integers as Python's, and all else as it is."""
    return operator.index(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


def _same(one: Any, other: Any) -> bool:
    """Return whether two settings are the same: text and methods by what they say, objects by what they are."""
    return one is other or (type(one) is type(other) and isinstance(one, str | MethodType) and one == other)


def item_ids(input_id: Tensor | None, positions: Tensor) -> Tensor:
    """Return what PyG calls ``input_id``: the ids that the items were given, else their positions."""
    return positions if input_id is None else input_id[positions]


def _pinned(data: Any, num_threads: int) -> Any:
    del num_threads
    return data.pin_memory()
