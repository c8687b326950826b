"""One hop of neighbour sampling, not yet compacted."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from torch import Tensor

from headrace.ops.random.rng import NEIGHBOR, stream_key
from headrace.ops.sampling.layer_reducer import LayerReducer
from headrace.ops.sampling.rules import Rule
from headrace.ops.sampling.sample import Hop, sample_hop
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.plan.checks import check_expand, check_graph, check_items_fit, check_weight, divided_graph
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import HOP, Counts, Divided, MapStage, Runner, Stage

Expand = Literal["all", "new"]


@dataclass(frozen=True)
class SampledHop:
    """A batch with a hop that is found, in global ids, but not numbered: on its way to :class:`Compact`."""

    batch: MiniBatch
    hop: Hop


@dataclass(frozen=True, eq=False, repr=False)
class HopStage(MapStage):
    """Base of the stages that find neighbours. They leave them, with global ids, for `Compact` to number and count.

    Parameters
    ----------
    graph
        The graph to sample from.
    layer
        Which hop this is, 0 next to the seeds.
    weight
        Edge attribute to sample by; None for uniform sampling.
    expand
        ``"all"``: the frontier is every node seen so far. ``"new"``: only those that the previous hop reached first.
    """

    gives: ClassVar[str | None] = HOP
    reads_at: ClassVar[Place | None] = CPU

    graph: GraphView
    layer: int = field(kw_only=True)
    weight: str | None = field(default=None, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph)
        check_expand(self.name, self.expand)
        check_weight(self.name, self.graph, self.weight)

    @property
    @abstractmethod
    def edge_ids(self) -> bool:
        """Whether blocks are to carry the original ids of the sampled edges."""

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def first_hop(self) -> int | None:
        return self.layer

    @property
    def num_hops(self) -> int:
        return 1

    @property
    def cooperates(self) -> bool:
        # What is new to one rank may have been reached by another.
        return self.expand == "all"

    def divided(self) -> tuple[Divided, ...]:
        return divided_graph(self.graph)

    def check(self, before: tuple[Stage, ...]) -> None:
        check_items_fit(self, self.graph, before)

    def frontier(self, batch: MiniBatch) -> Tensor:
        """Return the nodes to find neighbours of, int64[num_dst]."""
        return batch.n_id if self.expand == "all" else batch.n_id[len(batch.n_id) - batch.num_sampled_nodes[-1] :]


@dataclass(frozen=True, eq=False, repr=False)
class RuleHop(HopStage):
    """Base of the stages that sample in-neighbours of the frontier by a rule.

    Parameters
    ----------
    graph, layer, weight, expand
        As for :class:`HopStage`.
    rule
        How to choose among the in-edges of the frontier.
    key_layer
        The layer that keys the randomness; equal for all hops when they depend on each other (LABOR).
    edge_ids
        Whether blocks carry the original ids of the sampled edges.
    """

    rule: Rule
    key_layer: int = field(kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    def sample(
        self,
        batch: MiniBatch,
        settings: RunSettings,
        *,
        frontier: Tensor | None = None,
        reducer: LayerReducer | None = None,
    ) -> Hop:
        """Sample one hop of the batch's frontier, or of another one."""
        return sample_hop(
            self.graph.indptr,
            self.graph.indices,
            self.frontier(batch) if frontier is None else frontier,
            self.rule,
            stream_key(settings.seed, batch.epoch, batch.index, self.key_layer, NEIGHBOR),
            weights=None if self.weight is None else self.graph.edge_weights(self.weight),
            num_threads=settings.num_threads,
            reducer=reducer,
            parallel_edges=not self.rule.has_edge_variates or self.graph.has_parallel_edges,
        )


@dataclass(frozen=True, eq=False, repr=False)
class SampleHop(RuleHop):
    """Sample in-neighbours of the frontier by a rule; parameters as for :class:`RuleHop`."""

    name: ClassVar[str] = "sample_hop"
    lowered: ClassVar[bool] = True

    @property
    def cooperates(self) -> bool:
        return super().cooperates and self.rule.per_destination

    def runner(self, settings: RunSettings) -> Runner:
        def run(batch: MiniBatch) -> tuple[SampledHop, Counts]:
            hop = self.sample(batch, settings)
            return SampledHop(batch, hop), {}

        return run
