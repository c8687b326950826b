"""What a stage is: a frozen description that chains, compares and prints, and never runs by itself.

A stage together with everything upstream of it is a *plan*. Chaining returns a new plan and changes nothing:

>>> import headrace as hr
>>> plan = hr.ItemSampler(1_000, batch_size=64)
>>> longer = plan.prefetch(workers=1)
>>> longer.upstream is plan
True

There are four kinds of stage. A :class:`SourceStage` begins a plan, a :class:`MapStage` turns one minibatch into
another, a :class:`MacroStage` stands for several stages, and :class:`~headrace.pipeline.stages.prefetch.Prefetch` hands
work to background threads. The decorator :func:`verb` makes a stage a method of every plan.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, NoReturn, ParamSpec, TypeVar

import numpy as np
import torch

from headrace.ops.errors import ItemsError, PlanError, UsageError
from headrace.pipeline.arguments import UPSTREAM, check_arguments, unknown_argument
from headrace.pipeline.arrays import shown, whole_number

if TYPE_CHECKING:
    from typing_extensions import Self

    from headrace.pipeline.batch import MiniBatch
    from headrace.pipeline.channel import Comm
    from headrace.pipeline.loader import Loader
    from headrace.pipeline.machine import Machine
    from headrace.pipeline.partition import Partition

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="type[Stage]")

#: Seeds are 64-bit keys of the random streams.
LARGEST_SEED = (1 << 64) - 1

Runner = Callable[["MiniBatch"], "MiniBatch"]


@dataclass(frozen=True)
class RunSettings:
    """What running a stage needs beyond its description. Only ``seed`` may influence a minibatch.

    Parameters
    ----------
    seed
        The plan's seed, taken from its source.
    num_threads
        Threads that one call of a kernel may use.
    rank, world_size
        Place of this process among those that share every batch.
    comm
        The channel of the thread that runs the stage, when ranks make batches together.
    rows_comm
        The channel on which the model exchanges rows then.
    """

    seed: int = 0
    num_threads: int = 1
    rank: int = 0
    world_size: int = 1
    comm: Comm | None = None
    rows_comm: Comm | None = None

    def with_channel(self) -> RunSettings:
        """Return the settings for a further thread, which communicates on a channel of its own."""
        comm, _ = self.channels()
        return replace(self, comm=comm.channel())

    def channels(self) -> tuple[Comm, Comm]:
        """Return the two channels.

        Raises
        ------
        PlanError
            If there are none: stages that communicate were chained, but the loader is not a cooperative one.
        """
        if self.comm is None or self.rows_comm is None:
            raise PlanError("exchanges between ranks need .loader(cooperative=True), which inserts them by itself")
        return self.comm, self.rows_comm


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Stage(ABC):
    """One described step of a plan; see the module docstring.

    Parameters
    ----------
    upstream
        The plan that feeds this stage; None for a source, or for a stage not yet chained.
    """

    upstream: Stage | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse arguments that the stage does not have, for constructors and verbs alike."""
        # Copies and pickles are made without any.
        what = getattr(cls, "verb", cls.__name__) if UPSTREAM in kwargs else cls.__name__
        check_arguments(what, cls.__init__, args, kwargs, complete=bool(args or kwargs))
        return super().__new__(cls)

    verb: ClassVar[str]
    """The method name by which plans chain this stage."""

    changes_batches: ClassVar[bool] = True
    """Whether the stage has a say in what the minibatches hold; if not, a checkpoint does not depend on it."""

    on_host: ClassVar[bool] = False
    """Whether the stage works in CPU memory, so that no copy to a device may stand before it."""

    converts: ClassVar[bool] = False
    """Whether what comes out is no MiniBatch but an object of another library, which few stages can take."""

    takes_converted: ClassVar[bool] = False
    """Whether the stage works on converted batches as well."""

    collective: ClassVar[bool] = False
    """Whether the stage communicates, so that every rank must run it for the same batches in the same order."""

    @property
    def cooperates(self) -> bool:
        """Whether ranks that each run the stage on vertices of their own find together what one rank would find."""
        return True

    @property
    def reads(self) -> frozenset[str]:
        """Names of the minibatch fields that this stage reads."""
        return frozenset()

    @property
    def writes(self) -> frozenset[str]:
        """Names of the minibatch fields that this stage writes."""
        return frozenset()

    def check(self, upstream: tuple[Stage, ...]) -> None:  # noqa: B027 - most stages have nothing to add
        """Refuse data that does not fit the stages before this one; called once, before any batch is made.

        Raises
        ------
        InputError
            With what was expected, what came and what to do.
        """

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of this stage by name, without its upstream."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "upstream"}

    def decisive(self) -> dict[str, Any]:
        """Return what decides the stage's part in the minibatches, by name; a checkpoint is valid for equal values."""
        return self.parameters()

    def describe(self) -> str:
        """Return one line, ``verb(parameters)``, leaving out parameters that have their default value."""
        shown = []
        for field in sorted(fields(self), key=lambda one: bool(one.kw_only)):
            value = getattr(self, field.name)
            if field.name == "upstream" or (field.default is not MISSING and _same(value, field.default)):
                continue
            text = _show(value)
            shown.append(f"{field.name}={text}" if field.kw_only else text)
        return f"{self.verb}({', '.join(shown)})" if shown else self.verb

    def pipe(self, function: Callable[Concatenate[Stage, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function(plan, ...)``, so that stages from elsewhere keep the left-to-right reading order."""
        return function(self, *args, **kwargs)

    def loader(
        self,
        *,
        machine: Machine | None = None,
        num_threads: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        comm: Comm | None = None,
        partition: Partition | None = None,
        progress: bool = False,
        **passes: bool,
    ) -> Loader[MiniBatch]:
        """Rewrite the plan for the machine and return the loader that runs it.

        Parameters
        ----------
        machine
            The machine to plan for; by default the one at hand.
        num_threads
            Threads that one kernel call may use at most; by default the machine's cores. A call takes as many as its
            work is worth. The minibatches do not depend on it.
        rank, world_size
            Place among the processes that share every batch; by default from torch.distributed when it is initialised,
            otherwise 0 of 1. Where they come from torch.distributed, a source without a seed takes that of rank 0, so
            all ranks then make such loaders in the same order.
        comm
            What carries the exchanges of ``cooperative=True``; by default a process group of torch.distributed, where a
            rank that does not come is given up after the ``timeout`` of ``init_process_group``. An `hr.LocalGroup` has
            one for each thread that plays a rank.
        partition
            The owner of each vertex for ``cooperative=True``; by default `hr.Partition.hash`.
        progress
            Show a progress bar for each epoch, where stderr is a terminal or a notebook.
        **passes
            One switch per pass, for example ``fuse_sampling=False``; see ``headrace.pipeline.passes``. All are on but
            ``cooperative``, by which the ranks make each batch together: no two ranks sample or fetch the same vertex.

        Raises
        ------
        PlanError
            If the plan is not legal or a switch names no pass.
        InputError
            If the data of two stages do not fit together.
        """
        from headrace.pipeline.loader import Loader

        return Loader(
            self,
            machine=machine,
            num_threads=num_threads,
            rank=rank,
            world_size=world_size,
            comm=comm,
            partition=partition,
            progress=progress,
            passes=passes,
        )

    # A plan describes; what is iterated is the loader. Where these are not defined Python says "not iterable" alone.
    def __iter__(self) -> NoReturn:
        raise UsageError(f"expected a loader to iterate over, got a plan (ends in {self.verb}); call .loader() on it")

    def __next__(self) -> NoReturn:
        raise UsageError(
            f"expected an iterator, got a plan (ends in {self.verb}); call next(iter(plan.loader())) for its "
            "first batch"
        )

    def __len__(self) -> int:
        raise UsageError(
            f"expected a loader, got a plan (ends in {self.verb}), whose number of batches depends on how it is run; "
            "call len(plan.loader())"
        )

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Stage) or type(self) is not type(other):
            return NotImplemented
        return all(_same(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    def __hash__(self) -> int:
        return hash((type(self), self.upstream))

    def __repr__(self) -> str:
        from headrace.pipeline.plan import render

        return render(self)

    if TYPE_CHECKING:
        # Verbs are registered at import time by the stages themselves, so no list of them stands here.
        def __getattr__(self, name: str) -> Callable[..., Stage]: ...

        # But for those behind which a loader yields other things than minibatches.
        def to_pyg(self) -> Converted: ...  # noqa: D102
        def to_dgl(self) -> Converted: ...  # noqa: D102


if TYPE_CHECKING:

    class Converted(Stage):
        """The type of plans that end in ``to_pyg()`` or ``to_dgl()``, perhaps with a prefetch or a copy behind."""

        def __getattr__(self, name: str) -> Callable[..., Converted]: ...
        def loader(self, **options: Any) -> Loader[Any]: ...  # noqa: D102


class BatchSource(ABC):
    """Runs a :class:`SourceStage`: yields minibatches in order and can name and seek its position."""

    num_batches: int | None
    """Batches in one epoch; None when unknown beforehand."""

    @abstractmethod
    def seek(self, epoch: int, state: dict[str, Any] | None) -> None:
        """Stand before the first batch of ``epoch``, or where ``state`` (from :meth:`state`) says."""

    @abstractmethod
    def draw(self) -> MiniBatch:
        """Return the next batch of the epoch; raise StopIteration at its end."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return what :meth:`seek` needs to continue with the batch after the last one drawn."""


class SourceStage(Stage):
    """A stage that begins a plan.

    Attributes
    ----------
    seed
        Seed of everything random in the plan.
    seed_given
        Whether whoever made the plan named it. A seed that was taken from torch gives way to that of rank 0 where a
        loader takes its rank from torch.distributed, or where ranks have a channel. Counts in no comparison.
    """

    seed: int
    seed_given: bool = True

    def settle_seed(self) -> None:
        """Take torch's seed where none was given, and check the one that was; for ``__post_init__``."""
        if self.seed is None:
            object.__setattr__(self, "seed", torch.initial_seed())
            object.__setattr__(self, "seed_given", False)
        name = f"{type(self).__name__}: seed"
        object.__setattr__(self, "seed", whole_number(self.seed, name, 0, ItemsError, LARGEST_SEED))

    @abstractmethod
    def source(self, settings: RunSettings) -> BatchSource:
        """Return what draws this source's batches."""


class MapStage(Stage):
    """A stage that makes one minibatch from another: a pure function of the batch, its key and the parameters."""

    @abstractmethod
    def runner(self, settings: RunSettings) -> Runner:
        """Return the function that does it. It may be called from several threads at once."""

    def counts(self, before: MiniBatch, after: MiniBatch) -> dict[str, int]:
        """Return what ``loader.stats()`` adds up for this stage, for one batch."""
        del before, after
        return {}


class MacroStage(Stage):
    """A stage that stands for a sequence of simpler ones."""

    @abstractmethod
    def parts(self) -> tuple[Stage, ...]:
        """Return the sequence, not yet chained."""


def verb(name: str) -> Callable[[S], S]:
    """Register a stage class under a method name of every plan.

    ``plan.name(*args, **kwargs)`` then returns ``StageClass(*args, **kwargs, upstream=plan)``.

    Raises
    ------
    PlanError
        If the name is taken.
    """

    def register(stage: S) -> S:
        if hasattr(Stage, name):
            raise PlanError(f"cannot register {stage.__name__}: plans already have a method or attribute {name!r}")

        def method(self: Stage, *args: Any, **kwargs: Any) -> Stage:
            if UPSTREAM in kwargs:
                raise unknown_argument(name, UPSTREAM, [field.name for field in fields(stage)])
            chained: Stage = stage(*args, **kwargs, upstream=self)
            return chained

        method.__name__ = name
        method.__qualname__ = f"Stage.{name}"
        method.__doc__ = stage.__doc__
        signature = inspect.signature(stage.__init__)
        taken = [one for one in signature.parameters.values() if one.name != UPSTREAM]
        method.__signature__ = signature.replace(parameters=taken, return_annotation="Stage")  # type: ignore[attr-defined]
        setattr(Stage, name, method)
        stage.verb = name
        return stage

    return register


def verbs() -> tuple[str, ...]:
    """Return the registered method names, sorted."""
    found = set()
    pending: list[type[Stage]] = [Stage]
    while pending:
        stage = pending.pop()
        pending.extend(stage.__subclasses__())
        name = stage.__dict__.get("verb")
        if name is not None and name in Stage.__dict__:
            found.add(name)
    return tuple(sorted(found))


def _same(left: Any, right: Any) -> bool:
    """Whether two parameter values are equal; arrays by content, everything else by ``==``."""
    if left is right:
        return True
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return type(left) is type(right) and bool(left == right)


def _show(value: Any) -> str:
    """Return a short text for a parameter value."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, tuple):
        return f"[{', '.join(_show(item) for item in value)}]"
    if callable(value):
        return str(getattr(value, "__qualname__", type(value).__name__))
    return repr(value) if isinstance(value, str) else shown(value)
