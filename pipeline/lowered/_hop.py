"""How a hop finds in-neighbours, as one value, which every stage that samples by a rule holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor

from headrace.ops import BlendedKey, HopRule, LayerReducer, NeighborRule, dependent_key, sample_hop
from headrace.ops import Hop as PickedEdges
from headrace.ops.gpu import device_of
from headrace.ops.sampling.edge_positions import EdgePositions
from headrace.pipeline.data import GraphView, MiniBatch, Seen
from headrace.pipeline.data.graph_machinery import arrays_on, weights_on
from headrace.pipeline.data.seen import seen_of
from headrace.pipeline.lowered._excluded import SeedEdges, excluder
from headrace.pipeline.lowered.trees import Trees, of_elements
from headrace.pipeline.plan.settings import RunSettings


@dataclass(frozen=True)
class Hop:
    """How a hop samples in-neighbours of its frontier.

    Attributes
    ----------
    graph : GraphView
        The graph to sample from.
    rule : HopRule
        How to choose among the in-edges of the frontier.
    key_layer : int
        The layer that keys the randomness; equal for all hops when they depend on each other (LABOR).
    batch_dependency : float
        Batches over which the random numbers of sources change (LABOR); 1 for batches that are independent.
    weight : str or None
        Edge attribute to sample by; None for uniform sampling.
    edge_ids : bool
        Whether blocks carry the original ids of the sampled edges.
    trees : Trees or None
        The trees that seeds grow; None where they share their neighbourhood.
    exclude : SeedEdges or None
        Edges between seeds that are not sampled; None for no such edges.
    """

    shown_as_parameters: ClassVar[bool] = True

    graph: GraphView
    rule: HopRule
    key_layer: int = field(kw_only=True)
    batch_dependency: float = field(default=1, kw_only=True)
    weight: str | None = field(default=None, kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)
    trees: Trees | None = field(default=None, kw_only=True)
    exclude: SeedEdges | None = field(default=None, kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        """Names of the fields of a batch that the hop reads, beside its frontier."""
        seeds = frozenset[str]() if self.exclude is None else frozenset({"seeds"})
        return seeds if self.trees is None else seeds | self.trees.reads

    @property
    def is_plain(self) -> bool:
        """Whether every in-edge may be picked, whatever the batch: no weights, trees or excluded edges."""
        return self.weight is None and self.trees is None and self.exclude is None

    @property
    def reads_whole_rows(self) -> bool:
        """Whether the hop looks at all in-edges of its frontier, and at nothing else."""
        return self.is_plain and self.rule.reads_whole_rows

    @property
    def takes_all(self) -> bool:
        """Whether it takes all in-edges of its frontier; by weight, time or exclusion it leaves some out."""
        return self.is_plain and self.rule == NeighborRule(-1)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU can sample it: of a graph in its own order."""
        return self.graph.node_ids is None and self.rule.has_twin

    def sampled_by(self) -> tuple[Seen, ...]:
        """Return the weights and times that it goes by."""
        return seen_of(self.graph, self.weight, None if self.trees is None else self.trees.time)

    def differs_by_rule_alone(self, other: Hop) -> bool:
        """Whether two hops sample one graph in one way but for their rules and the layers of their keys."""
        return self.graph is other.graph and replace(self, rule=other.rule, key_layer=other.key_layer) == other

    def key(self, batch: MiniBatch, settings: RunSettings) -> int | BlendedKey:
        """Return the key of the randomness, a function of the plan's seed and of which batch it is."""
        return dependent_key(settings.seed, batch.epoch, batch.index, self.key_layer, self.batch_dependency)

    def excluder(self, settings: RunSettings) -> Callable[[MiniBatch], EdgePositions | None]:
        """Return what finds the edges of a batch that are not sampled."""
        return excluder(self.exclude, self.graph, settings)

    def elements(self, batch: MiniBatch, frontier: Tensor) -> Mapping[str, Tensor | None]:
        """Return what is known of the elements of a frontier, the last nodes of the batch; nothing without trees."""
        if self.trees is None:
            return {}
        seeds = self.trees.of(batch)
        return of_elements(seeds, seeds.slots[len(seeds.slots) - len(frontier) :])

    def pick(
        self,
        frontier: Tensor,
        elements: Mapping[str, Tensor | None],
        batch: MiniBatch,
        settings: RunSettings,
        *,
        excluded: EdgePositions | None = None,
        reducer: LayerReducer | None = None,
    ) -> PickedEdges:
        """Pick in-edges of a frontier.

        Parameters
        ----------
        frontier: int64[num_dst]
            The destinations.
        elements
            What is known of them; see `elements`.
        batch, settings
            By which the hop is keyed.
        excluded
            Edges that are not there.
        reducer
            For layer-wise rules, where the frontier is one part of several.
        """
        device = device_of(frontier)
        arrays = arrays_on(self.graph, device)
        named: dict[str, Any] = {
            "weights": None if self.weight is None else weights_on(self.graph, self.weight, device),
            "num_threads": settings.num_threads,
            "reducer": reducer,
            "parallel_edges": not self.rule.has_edge_variates or self.graph.has_parallel_edges,
            "excluded": excluded,
            "times": None if self.trees is None or self.trees.time is None else arrays.times,
            "rows": arrays.rows,
            **elements,
        }
        return sample_hop(arrays.indptr, arrays.indices, frontier, self.rule, self.key(batch, settings), **named)
