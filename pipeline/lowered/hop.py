"""One hop of neighbour sampling, not yet compacted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from torch import Tensor

from headrace.ops.gpu import device_of
from headrace.ops.sampling.find_edges import EdgePositions
from headrace.ops.sampling.layer_reducer import LayerReducer
from headrace.ops.sampling.on_gpu import has_twin
from headrace.ops.sampling.rules import ByRelation, HopRule, NeighborRule, reads_whole_rows
from headrace.ops.sampling.sample import Hop, sample_hop
from headrace.ops.sampling.typed_hop import sample_typed_hop
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.lowered.excluded import SeedEdges, excluder
from headrace.pipeline.lowered.hop_key import hop_key
from headrace.pipeline.lowered.trees import of_elements, tree_fields, trees_of
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
    heeds_types: ClassVar[bool] = False
    """Whether the graph may have types."""

    graph: GraphView
    layer: int = field(kw_only=True)
    weight: str | None = field(default=None, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph, with_types=self.heeds_types)
        check_expand(self.name, self.expand)
        check_weight(self.name, self.graph, self.weight)

    @property
    @abstractmethod
    def edge_ids(self) -> bool:
        """Whether blocks are to carry the original ids of the sampled edges."""

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU can do it, for a batch that is there."""
        return False

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
        return frontier_of(batch, self.expand)


def frontier_of(batch: MiniBatch, expand: Expand) -> Tensor:
    """Return the nodes of a batch that a hop finds neighbours of, int64[num_dst]."""
    return batch.n_id if expand == "all" else batch.n_id[len(batch.n_id) - batch.num_sampled_nodes[-1] :]


def sampled_on_gpu(graph: GraphView, rules: Iterable[HopRule], exclude: SeedEdges | None) -> bool:
    """Whether a GPU can sample a graph by rules: a whole one, in its own order; all trees leave out the same edges."""
    whole = isinstance(graph, Graph) and graph.node_ids is None
    return whole and all(has_twin(rule) for rule in rules) and not (exclude is not None and exclude.by_tree)


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
    batch_dependency
        Batches over which the random numbers of sources change (LABOR); 1 for batches that are independent.
    edge_ids
        Whether blocks carry the original ids of the sampled edges.
    disjoint
        Whether each seed grows a tree of its own.
    time
        Name of the times that bound these, by which the graph is sorted; None for trees without.
    window
        How long before its seed a tree begins; None for always.
    strictly_before
        Whether trees leave out what is of their seed's own time.
    exclude
        Edges between seeds that are not there; None for no such edges.
    """

    heeds_types: ClassVar[bool] = True

    rule: HopRule
    key_layer: int = field(kw_only=True)
    batch_dependency: float = field(default=1, kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)
    disjoint: bool = field(default=False, kw_only=True)
    time: str | None = field(default=None, kw_only=True)
    window: float | None = field(default=None, kw_only=True)
    strictly_before: bool = field(default=False, kw_only=True)
    exclude: SeedEdges | None = field(default=None, kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        of_exclusion = frozenset() if self.exclude is None else frozenset({"seeds"})
        return super().reads | of_exclusion | tree_fields(self.disjoint, self.time)

    @property
    def reads_whole_rows(self) -> bool:
        """Whether the hop looks at whole rows of its frontier, and at nothing else."""
        plain = self.exclude is None and self.weight is None and not self.disjoint
        return plain and reads_whole_rows(self.rule)

    @property
    def takes_all(self) -> bool:
        """Whether it takes all in-edges of its frontier; by weight, time or exclusion it leaves some out."""
        plain = self.weight is None and self.exclude is None and not self.disjoint
        return self.rule == NeighborRule(-1) and plain

    def excluder(self, settings: RunSettings) -> Callable[[MiniBatch], EdgePositions | None]:
        """Return what finds the edges of a batch that are not there."""
        return excluder(self.exclude, self.graph, settings)

    def sample(
        self,
        batch: MiniBatch,
        settings: RunSettings,
        *,
        frontier: Tensor | None = None,
        reducer: LayerReducer | None = None,
        excluded: EdgePositions | None = None,
        elements: Mapping[str, Tensor | None] | None = None,
    ) -> Hop:
        """Sample one hop of the batch's frontier, or of another one, in trees with what is known of its elements."""
        nodes = self.frontier(batch) if frontier is None else frontier
        if elements is None:
            elements = self.elements(batch) if self.disjoint else {}
        key = hop_key(batch, settings, self.key_layer, self.batch_dependency)
        parallel_edges = not self.rule.has_edge_variates or self.graph.has_parallel_edges
        device = device_of(nodes)
        arrays = self.graph.arrays_on(device)
        named: dict[str, Any] = {
            "weights": None if self.weight is None else self.graph.weights_on(self.weight, device),
            "num_threads": settings.num_threads,
            "reducer": reducer,
            "parallel_edges": parallel_edges,
            "excluded": excluded,
            "times": None if self.time is None else arrays.times,
            **elements,
        }
        if isinstance(self.rule, ByRelation):
            assert arrays.rows is not None  # of a graph with types
            return sample_typed_hop(arrays.rows, arrays.indices, nodes, self.rule, key, **named)
        return sample_hop(arrays.indptr, arrays.indices, nodes, self.rule, key, **named)

    def elements(self, batch: MiniBatch) -> Mapping[str, Tensor | None]:
        """Return what is known of the elements of the frontier."""
        trees = trees_of(batch, self.time, self.window, strictly_before=self.strictly_before)
        return of_elements(trees, trees.slots[len(trees.slots) - len(self.frontier(batch)) :])


@dataclass(frozen=True, eq=False, repr=False)
class SampleHop(RuleHop):
    """Sample in-neighbours of the frontier by a rule; parameters as for :class:`RuleHop`."""

    name: ClassVar[str] = "sample_hop"
    lowered: ClassVar[bool] = True

    @property
    def on_gpu(self) -> bool:
        return sampled_on_gpu(self.graph, (self.rule,), self.exclude)

    @property
    def cooperates(self) -> bool:
        return super().cooperates and self.rule.per_destination

    def runner(self, settings: RunSettings) -> Runner:
        excluded = self.excluder(settings)

        def run(batch: MiniBatch) -> tuple[SampledHop, Counts]:
            hop = self.sample(batch, settings, excluded=excluded(batch))
            return SampledHop(batch, hop), {}

        return run
