"""PinSAGE neighbourhoods: the vertices that random walks visit most, weighted by how often they do."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from headrace.ops.random.rng import WALK, stream_key
from headrace.ops.sampling.sample import Hop
from headrace.ops.sampling.walk import WeightSums, pinsage_neighbors, weight_sums
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.hop import Expand, HopStage
from headrace.pipeline.plan.stage import MacroStage, Runner, RunSettings, Stage, verb
from headrace.pipeline.stages.checks import (
    MOST_HOPS,
    check_expand,
    check_probability,
    check_steps,
    check_weight,
    make_positive,
)
from headrace.pipeline.stages.sampler import Sampler


@verb("walk_hop")
@dataclass(frozen=True, eq=False, repr=False)
class WalkHop(HopStage):
    """Find the PinSAGE neighbours of the frontier and leave them, with global ids, for :class:`Compact` to number.

    Parameters
    ----------
    graph, layer, weight, expand
        As for :class:`~headrace.pipeline.lowered.hop.HopStage`; the layer keys the randomness, too.
    num_neighbors, num_walks, walk_length, restart
        As for :class:`SamplePinsage`.
    """

    num_neighbors: int
    num_walks: int
    walk_length: int
    restart: float = field(default=0.5, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        make_positive(self, "num_neighbors", "num_walks", "walk_length")
        check_steps(self.verb, self.num_walks, self.walk_length)
        check_probability(self.verb, "restart", self.restart)

    @property
    def edge_ids(self) -> bool:
        return False  # a neighbour may be several edges away

    def runner(self, settings: RunSettings) -> Runner:
        weights = None if self.weight is None else walk_weights(self.graph, self.weight)

        def run(batch: MiniBatch) -> MiniBatch:
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
            positions = torch.empty(0, dtype=torch.int64)
            return batch.replace(hop=Hop(visits.indptr, visits.neighbors, positions, visits.importance()))

        return run

    def counts(self, before: MiniBatch, after: MiniBatch) -> dict[str, int]:
        assert after.hop is not None
        rows = len(after.hop.indptr) - 1
        del before
        return {"edges": len(after.hop.neighbors), "walks": rows * self.num_walks}


@verb("sample_pinsage")
@dataclass(frozen=True, eq=False, repr=False)
class SamplePinsage(Sampler, MacroStage):
    """Take as neighbours of a vertex those that random walks from it visit most often (PinSAGE, arXiv 1806.01973).

    Walks step to uniform in-neighbours, against the direction of messages. ``Block.weight`` holds the visit counts,
    scaled so that they average to 1 per destination: a plain mean with these weights is the paper's importance pooling.
    The neighbours are no edges of the graph, so blocks carry no edge ids. The vertex itself is never among them; of
    vertices visited equally often those reached first are taken. A vertex without in-edges has no neighbours.

    Parameters
    ----------
    graph
        The graph to walk on. Every vertex on the way counts, of whatever kind: where only items may be neighbours of
        items, walk on a graph of items.
    num_neighbors
        Most neighbours per vertex.
    num_walks
        Walks from each vertex.
    walk_length
        Steps of a walk. All walks from a vertex together take at most 1,048,576.
    restart
        Probability, in [0, 1), that a step leads back to the walk's start.
    num_layers
        Hops. Each is drawn anew, so a vertex may have other neighbours in another layer.
    weight
        Name of an edge attribute to walk by: an in-edge is taken in proportion to it. None (default) walks uniformly.
    expand
        As for ``sample_neighbor``.

    Raises
    ------
    GraphError
        If there is no such edge attribute, or it holds negative, infinite or undefined values.
    InputError
        For numbers below 1, a restart outside [0, 1), a subject that is not a graph, or an unknown hop rule.
    """

    num_neighbors: int
    num_walks: int
    walk_length: int
    restart: float = 0.5
    num_layers: int = 1
    weight: str | None = field(default=None, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        make_positive(self, "num_neighbors", "num_walks", "walk_length")
        make_positive(self, "num_layers", most=MOST_HOPS)
        check_steps(self.verb, self.num_walks, self.walk_length)
        check_probability(self.verb, "restart", self.restart)
        check_expand(self.verb, self.expand)
        check_weight(self.verb, self.graph, self.weight)

    @property
    def num_hops(self) -> int:
        return self.num_layers

    def parts(self) -> tuple[Stage, ...]:
        pieces: list[Stage] = []
        for layer in range(self.num_layers):
            hop = WalkHop(
                self.graph,
                self.num_neighbors,
                self.num_walks,
                self.walk_length,
                restart=self.restart,
                layer=layer,
                weight=self.weight,
                expand=self.expand,
            )
            pieces += [hop, Compact(self.graph, expand=self.expand, edge_ids=False)]
        return tuple(pieces)


def walk_weights(graph: Graph, weight: str) -> WeightSums:
    """Return the graph's edge attribute in the form that walks read, made on first use."""
    name = f"walk weights: {weight}"
    if name not in graph.tables:
        graph.tables[name] = weight_sums(graph.indptr, graph.edge_weights(weight), trust_weights=True)
    table: WeightSums = graph.tables[name]
    return table
