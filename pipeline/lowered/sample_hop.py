"""One hop of neighbour sampling as a stage, not yet compacted."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from torch import Tensor

from headrace.ops import EdgePositions, LayerReducer
from headrace.ops import Hop as PickedEdges
from headrace.pipeline.data import GraphView, MiniBatch, Place, Seen
from headrace.pipeline.lowered._finders import HERE, Finder, SampledHop
from headrace.pipeline.lowered._hop import Hop
from headrace.pipeline.plan.checks import check_expand, check_graph, check_weight
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import HOP, Counts, MapStage, Runner, Stage
from headrace.pipeline.plan.traits import Divided, RankTraits

Expand = Literal["all", "new"]


@dataclass(frozen=True, eq=False, repr=False)
class HopStage(MapStage):
    """Base of the stages that find edges. They leave them for `Compact` to number and count.

    Parameters
    ----------
    layer
        Which hop this is, 0 next to the seeds.
    expand
        ``"all"``: the frontier is every node seen so far. ``"new"``: only those that the previous hop reached first.
    finder
        Who finds the edges.
    """

    gives: ClassVar[str | None] = HOP
    with_types: ClassVar[bool] = True
    """Whether the graph may have types."""
    num_hops: ClassVar[int] = 1

    layer: int = field(kw_only=True)
    expand: Expand = field(default="all", kw_only=True)
    finder: Finder = field(default=HERE, kw_only=True)

    if TYPE_CHECKING:

        @property
        def graph(self) -> GraphView:
            """The graph."""

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph, with_types=self.with_types)
        check_expand(self.name, self.expand)

    @property
    @abstractmethod
    def edge_ids(self) -> bool:
        """Whether blocks carry the original ids of the sampled edges."""

    @property
    def reads_at(self) -> Place | None:
        return self.finder.reads_at

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"}) | self.finder.reads

    @property
    def writes(self) -> frozenset[str]:
        return self.finder.reads

    @property
    def first_hop(self) -> int | None:
        return self.layer

    @property
    def takes_all(self) -> bool:
        """Whether the hop takes all in-edges of all nodes so far, of those within the batch if it is bound to it."""
        return False

    @property
    def by_node(self) -> bool:
        """Whether the edges of a node depend on that node alone, and not on the rest of the frontier."""
        return True

    @property
    def ranks(self) -> RankTraits:
        traits = self.finder.ranks
        # A rank that finds edges by itself has its own part of the frontier alone.
        return traits if traits.collective or self.by_node else replace(traits, cooperates=False)

    def divided(self) -> tuple[Divided, ...]:
        return (*super().divided(), *self.finder.divided())

    def check(self, before: tuple[Stage, ...]) -> None:
        del before
        self.finder.check(self)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU can do it, for a batch that is there."""
        return False

    def frontier(self, batch: MiniBatch) -> Tensor:
        """Return the nodes to find neighbours of, int64[num_dst]."""
        return frontier_of(batch, self.expand)


def frontier_of(batch: MiniBatch, expand: Expand) -> Tensor:
    """Return the nodes of a batch that a hop finds neighbours of, int64[num_dst]."""
    return batch.n_id if expand == "all" else batch.n_id[len(batch.n_id) - batch.num_sampled_nodes[-1] :]


@dataclass(frozen=True, eq=False, repr=False)
class RuleHop(HopStage):
    """Base of the stages that sample in-neighbours of the frontier by a rule.

    Parameters
    ----------
    hop
        How.
    layer, expand, finder
        As for :class:`HopStage`.
    """

    hop: Hop

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weight(self.name, self.graph, self.hop.weight)

    @property
    def graph(self) -> GraphView:
        """The graph that is sampled."""
        return self.hop.graph

    @property
    def edge_ids(self) -> bool:
        return self.hop.edge_ids

    @property
    def on_gpu(self) -> bool:
        return self.hop.on_gpu

    @property
    def takes_all(self) -> bool:
        return self.hop.takes_all and self.expand == "all"

    @property
    def by_node(self) -> bool:
        return self.hop.rule.per_destination

    @property
    def batch_dependency(self) -> float:
        return self.hop.batch_dependency

    @property
    def reads(self) -> frozenset[str]:
        return super().reads | self.hop.reads

    def sampled_by(self) -> tuple[Seen, ...]:
        return self.hop.sampled_by()

    def pick(
        self,
        batch: MiniBatch,
        settings: RunSettings,
        *,
        excluded: EdgePositions | None = None,
        reducer: LayerReducer | None = None,
    ) -> PickedEdges:
        """Pick in-edges of the batch's frontier."""
        frontier = self.frontier(batch)
        elements = self.hop.elements(batch, frontier)
        return self.hop.pick(frontier, elements, batch, settings, excluded=excluded, reducer=reducer)


@dataclass(frozen=True, eq=False, repr=False)
class SampleHop(RuleHop):
    """Sample in-neighbours of the frontier by a rule; parameters as for :class:`RuleHop`."""

    name: ClassVar[str] = "sample_hop"
    lowered: ClassVar[bool] = True

    def runner(self, settings: RunSettings) -> Runner:
        return self.finder.sampler(self, settings)

    def sampler(self, settings: RunSettings) -> Runner:
        """Return the function that picks the edges in this process."""
        excluded = self.hop.excluder(settings)

        def run(batch: MiniBatch) -> tuple[SampledHop, Counts]:
            return SampledHop(batch, self.pick(batch, settings, excluded=excluded(batch))), {}

        return run
