"""One hop of PinSAGE: random walks find the neighbours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch

from headrace.ops import Hop, WeightSums, pinsage_neighbors, stream_key, weight_sums
from headrace.ops.random.rng import WALK
from headrace.pipeline.data import GraphView, MiniBatch
from headrace.pipeline.data.graph_machinery import table
from headrace.pipeline.lowered._finders import SampledHop
from headrace.pipeline.lowered.sample_hop import HopStage
from headrace.pipeline.plan import Counts, PlanError, Runner, RunSettings, Stage, check_weight, make_positive
from headrace.pipeline.plan.checks import check_probability, check_steps
from headrace.pipeline.plan.traits import shard_of_graph


@dataclass(frozen=True, eq=False, repr=False)
class WalkHop(HopStage):
    """Find the PinSAGE neighbours of the frontier and leave them, with global ids, for :class:`Compact` to number.

    Parameters
    ----------
    graph, weight
        The graph, and the edge attribute to walk by; None for uniform walks.
    layer, expand
        As for :class:`~headrace.pipeline.lowered.sample_hop.HopStage`; the layer keys the randomness, too.
    num_neighbors, num_walks, walk_length, restart
        As for :class:`SamplePinsage`.
    """

    name: ClassVar[str] = "walk_hop"
    lowered: ClassVar[bool] = True
    with_types: ClassVar[bool] = False
    edge_ids: ClassVar[bool] = False  # a neighbour may be several edges away

    graph: GraphView
    num_neighbors: int
    num_walks: int
    walk_length: int
    restart: float = field(default=0.5, kw_only=True)
    weight: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weight(self.name, self.graph, self.weight)
        make_positive(self, "num_neighbors", "num_walks", "walk_length")
        check_steps(self.name, self.num_walks, self.walk_length)
        check_probability(self.name, "restart", self.restart)

    def check(self, before: tuple[Stage, ...]) -> None:
        super().check(before)
        shard = shard_of_graph(self.graph)
        if shard is not None and shard.partition.num_parts > 1:
            raise PlanError(
                f"{self.origin.name} cannot walk a graph in shards: walks lead to nodes of other ranks. Use the whole "
                "graph on every rank, or another sampler"
            )

    def runner(self, settings: RunSettings) -> Runner:
        weights = None if self.weight is None else walk_weights(self.graph, self.weight)

        def run(batch: MiniBatch) -> tuple[SampledHop, Counts]:
            if self.weight is not None:
                self.graph.edge_weights(self.weight)  # refuses weights that were changed since
            visits = pinsage_neighbors(
                self.graph.indptr,
                self.graph.indices,
                self.frontier(batch),
                self.num_neighbors,
                num_walks=self.num_walks,
                walk_length=self.walk_length,
                restart=self.restart,
                key=stream_key(settings.seed, batch.epoch, batch.index, self.layer, WALK),
                weights=weights,
                num_threads=settings.num_threads,
            )
            positions = torch.empty(0, dtype=torch.int64, device="cpu")
            hop = Hop(visits.indptr, visits.neighbors, positions, visits.importance())
            return SampledHop(batch, hop), {"walks": (len(hop.indptr) - 1) * self.num_walks}

        return run


def walk_weights(graph: GraphView, weight: str) -> WeightSums:
    """Return the graph's edge attribute in the form that walks read, made on first use."""
    return table(
        graph,
        f"walk weights: {weight}",
        lambda: weight_sums(graph.indptr, graph.edge_weights(weight), trust_weights=True),
    )
