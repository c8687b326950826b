"""Stages: frozen descriptions of one step, which compare, and neither run nor chain.

There are four kinds. A :class:`~headrace.pipeline.plan.source.SourceStage` begins a plan. A :class:`MapStage` returns a
minibatch for a minibatch (a :class:`WindowStage` also sees the next ones). A :class:`MacroStage` expands to several
stages. :class:`~headrace.pipeline.stages.steps.Prefetch` moves work to background threads. *Traits*, the class
variables and properties of :class:`Stage`, describe a stage to passes, the rules of legal plans and lowering, which use
the type of a stage only in rules about that type.
"""

from __future__ import annotations

import copy
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.ops.forks import cached_property
from headrace.pipeline.data import FeatureName, GraphView, Place, Seen
from headrace.pipeline.data.seen import seen_of, structure_of
from headrace.pipeline.plan.arguments import check_arguments, check_parameters_are_fields
from headrace.pipeline.plan.traits import (
    Divided,
    KnownNodes,
    RankTraits,
    Shown,
    Watched,
    divided_graph,
    same,
    watched_tables,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from headrace.pipeline.plan.settings import RunSettings
    from headrace.pipeline.storage.wanted import Wanted


#: Counts of a stage for one batch, by name; ``loader.stats()`` adds them up.
Counts = Mapping[str, int]

#: Takes a minibatch (or another input of the stage), and returns the next one and its counts.
Runner = Callable[..., tuple[Any, Counts]]

#: The kinds of values that stages pass on.
MINIBATCH, PADDED = "minibatch", "padded minibatch"
HOP = "hop"
FETCHED = "frontier with its rows"
CONVERTED = "converted"


class _StageType(ABCMeta):
    """The type of stages: ``help()`` of a public stage shows verbs and parameters, and no machinery."""

    def __dir__(cls) -> list[str]:
        names = set(super().__dir__())
        if cls.__module__.startswith("headrace.pipeline.stages."):
            machinery = {name for base in cls.__mro__ if base.__module__ in _MACHINERY for name in vars(base)}
            of_plans = {name for base in cls.__mro__ if base.__module__ == _PLANS for name in vars(base)}
            parameters = {field.name for field in fields(cls)} if is_dataclass(cls) else set[str]()
            names -= {name for name in machinery - of_plans - parameters if not name.startswith("__")}
        return sorted(names)


#: The modules of members that passes, the rules of legal plans and lowering use.
_MACHINERY = ("headrace.pipeline.plan.stage", "headrace.pipeline.plan.source", "headrace.pipeline.stages.sampler")
_PLANS = "headrace.pipeline.plan.plan"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Stage(metaclass=_StageType):
    """One described step of a plan; see the module docstring."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse arguments that the stage does not have, for constructors and verbs alike."""
        # Copying and unpickling call it without arguments.
        check_parameters_are_fields(cls, given=bool(args or kwargs))
        check_arguments(cls.__name__, cls.__init__, args, kwargs, complete=bool(args or kwargs))
        return super().__new__(cls)

    name: ClassVar[str]
    """The name of the stage in texts and checkpoints; for a public stage, its verb."""

    takes: ClassVar[frozenset[str]] = frozenset({MINIBATCH})
    """The kinds of input: a MiniBatch, rows of its frontier, a sampled hop, or an object of another library."""

    gives: ClassVar[str | None] = MINIBATCH
    """The kind of output; None for that of the input."""

    changes_batches: ClassVar[bool] = True
    """Whether the stage affects the contents of minibatches; if not, a checkpoint does not depend on it."""

    lowered: ClassVar[bool] = False
    """Whether only passes produce the stage."""

    threads: ClassVar[bool] = False
    """Whether the stages before it run in background threads, so that no stage is moved across it."""

    stream: ClassVar[str | None] = None
    """"launch": stages behind it, up to a prefetch, go to a side stream of a GPU. "wait": it waits for them."""

    plants_trees: ClassVar[bool] = False
    """Whether each seed has its own tree after the stage."""

    keeps_ids_sound: ClassVar[bool] = False
    """Whether all ids after the stage are those of its graph or its input; not known of a user's own stage."""

    calls_users: ClassVar[bool] = False
    """Whether the stage passes batches to a function of the user, which may change them."""

    @property
    def reads_at(self) -> Place | None:
        """The place where the fields that the stage reads must be; None for any place."""
        return None

    @property
    def writes_at(self) -> Place | None:
        """The place of the fields that the stage writes; None for the place of the fields that it reads."""
        return None

    @property
    def moves_to(self) -> Place | None:
        """The place to which the stage moves all fields of the batch; None if it moves none."""
        return None

    @property
    def excludes(self) -> str | None:
        """How the stage identifies edges that later hops leave out: "ends" or "edge_id"; None if there are none."""
        return None

    @property
    def ranks(self) -> RankTraits:
        """The traits of the stage where several ranks run it."""
        return RankTraits()

    @property
    def reads(self) -> frozenset[str]:
        """Names of the minibatch fields that this stage reads."""
        return frozenset()

    @property
    def writes(self) -> frozenset[str]:
        """Names of the minibatch fields that this stage writes."""
        return frozenset()

    @property
    def wants(self) -> Wanted | None:
        """The features that the stage fetches; None if it fetches none."""
        return None

    @property
    def fetches(self) -> frozenset[tuple[str, FeatureName]]:
        """The features that the stage reads into the batch, each with "node" or "edge": ("node", "x")."""
        return frozenset()

    @property
    def first_hop(self) -> int | None:
        """The first hop that the stage samples, 0 next to the seeds; None if it samples none."""
        return None

    @property
    def num_hops(self) -> int:
        """The number of hops that the stage samples."""
        return 0

    @property
    def batch_dependency(self) -> float:
        """Batches over which the randomness changes: 1 if each batch has its own, infinite if all share one."""
        return 1

    def divided(self) -> tuple[Divided, ...]:
        """Return the data of the stage that are divided among ranks, by default its graph."""
        return divided_graph(getattr(self, "graph", None))

    def known_nodes(self) -> tuple[KnownNodes, ...]:
        """Return the nodes that the stage knows, by default those of its graph; all stages of a plan must agree."""
        graph = getattr(self, "graph", None)
        return (KnownNodes("its graph", graph.num_nodes, graph.node_types),) if isinstance(graph, GraphView) else ()

    def watched(self) -> tuple[Watched, ...]:
        """Return the data of the stage that a training loop may write: after a write, data read ahead are read again.

        By default these are its sampling weights and times, which are refused after a write.
        """
        return watched_tables(self.sampled_by())

    def tables_of(self) -> tuple[Seen, ...]:
        """Return the users' arrays behind the tables of the stage: after a write to them no epoch begins or ends.

        By default its sampling weights and times, and the structure of its graph.
        """
        graph = getattr(self, "graph", None)
        return (*self.sampled_by(), *(structure_of(graph) if isinstance(graph, GraphView) else ()))

    def sampled_by(self) -> tuple[Seen, ...]:
        """Return the weights and times of its graph that the stage samples by, and the arguments that it keeps."""
        graph, kept = getattr(self, "graph", None), self.__dict__.get("_kept", ())
        named = getattr(self, "weight", None), getattr(self, "time", None)
        return (*kept, *seen_of(graph, *named)) if isinstance(graph, GraphView) else kept

    def keep_seen(self, seen: Seen) -> None:
        """Learn of an array that an argument was made of."""
        object.__setattr__(self, "_kept", (*self.__dict__.get("_kept", ()), seen))  # no field: it decides nothing

    def fits_behind(self, last: Stage) -> str | None:
        """Return why the stage directly before this one is wrong, or None; each verification of a plan calls it."""
        del last
        return None

    def check(self, before: tuple[Stage, ...]) -> None:
        """Refuse data that does not fit the stages before this one; called once, before any batch is made.

        Items that are not in the graph of the stage are refused before.

        Raises
        ------
        InputError
            With the value expected, the value given and a remedy.
        """

    @property
    def origin(self) -> Stage:
        """The stage that the user wrote: this one, or the one that passes rewrote. Stats and errors use its name."""
        origin: Stage = self.__dict__.get("_origin", self)
        return origin

    def made_of(self, stage: Stage) -> Self:
        """Return this stage with the origin of the stage that it replaces."""
        # A copy, because a user may put the same stage into several plans.
        made = copy.copy(self)
        object.__setattr__(made, "_origin", stage.origin)  # no field: it is no part of what the stage does
        return made

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of this stage by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def as_written(self) -> dict[str, Any]:
        """Return the parameters as constructors take them again."""
        return self.parameters()

    def shown(self) -> list[Shown]:
        """Return the parameters that texts show."""
        return Shown.of_fields(self)

    def decisive(self) -> dict[str, Any]:
        """Return the values that decide the stage's effect, by name; a checkpoint is valid for equal values."""
        return self.parameters()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Stage) or type(self) is not type(other):
            return NotImplemented
        return all(same(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        from headrace.pipeline.plan.text import describe

        return describe(self)


class MapStage(Stage):
    """A stage that returns a minibatch for a minibatch: a pure function of the batch, its key and the parameters."""

    keyed: ClassVar[bool] = False
    """Whether the runner also takes the epoch and the number of the batch, which converted objects lack."""

    finds_by_node: ClassVar[bool] = False
    """Whether a stage of your own finds edges of each entry of `n_id` by itself: they depend on the node, its tree
    (`slot`) and the key of the batch, not on other nodes or on seeds. It makes one hop of all entries, which stay the
    first. Ranks that make batches together then run it for their parts of the nodes."""

    @abstractmethod
    def runner(self, settings: RunSettings) -> Runner:
        """Return the function from a batch to a batch. Several threads may call it at once.

        It returns the batch and the counts that ``loader.stats()`` adds up for this stage, ``{}`` for none.
        """

    def launcher(self, settings: RunSettings) -> Runner:
        """Return a runner that enqueues the work on the current CUDA stream without waiting."""
        return self.runner(settings)


class PlainStage(MapStage):
    """A stage whose work depends on the batch and its own parameters alone: a subclass has `run`."""

    @abstractmethod
    def run(self, batch: Any) -> tuple[Any, Counts]:
        """Return the batch that it makes of a batch, and what was counted."""

    def runner(self, settings: RunSettings) -> Runner:
        """Return `run`."""
        del settings
        return self.run


class WindowRunner(ABC):
    """Runs a :class:`WindowStage`: learns of batches as they come into the window, and works on them as they leave it.

    Batches leave in the order in which they came. One thread at a time calls it.
    """

    @property
    @abstractmethod
    def wants_more(self) -> bool:
        """Whether something is gained by another batch in the window."""

    @abstractmethod
    def enter(self, batch: Any) -> None:
        """Learn of a batch that leaves behind all those in the window."""

    @abstractmethod
    def __call__(self, batch: Any) -> tuple[Any, Counts]:
        """Make the minibatch that came first into another, and return what was counted."""

    @abstractmethod
    def clear(self) -> None:
        """Forget the batches in the window, which will not leave it."""


class WindowStage(MapStage):
    """A stage that makes one minibatch from another, and knows those that come next.

    What it makes of a batch does not depend on them, nor on how many it knows: they only save work.
    """

    @abstractmethod
    def runner(self, settings: RunSettings) -> WindowRunner:
        """Return what does it."""

    def again(self, settings: RunSettings) -> Runner | None:
        """Return what makes a batch that has left the window once more, where what was read for it was written since.

        By default None: such writes are refused.
        """
        del settings
        return None


class MacroStage(Stage):
    """A stage that expands to a sequence of simpler ones, which decide what it reads, writes and samples."""

    @abstractmethod
    def parts(self) -> tuple[Stage, ...]:
        """Return the sequence."""

    @property
    def reads(self) -> frozenset[str]:
        """Names of the minibatch fields that a part reads, and no part before it writes."""
        return self._of_parts[0]

    @property
    def writes(self) -> frozenset[str]:
        """Names of the minibatch fields that a part writes."""
        return self._of_parts[1]

    @property
    def num_hops(self) -> int:
        """The number of hops of all parts."""
        return self._of_parts[2]

    @cached_property
    def _of_parts(self) -> tuple[frozenset[str], frozenset[str], int]:
        reads, writes, num_hops = frozenset[str](), frozenset[str](), 0
        for part in self.parts():
            reads, writes = reads | (part.reads - writes), writes | part.writes
            num_hops += part.num_hops
        return reads, writes, num_hops
