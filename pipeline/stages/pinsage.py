"""PinSAGE neighbourhoods: the vertices that random walks visit most, weighted by how often they do."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from headrace.ops.errors import GraphError, InputError
from headrace.ops.rng import WALK, stream_key
from headrace.ops.sample import Hop
from headrace.ops.walk import WeightSums, pinsage_neighbors, weight_sums
from headrace.pipeline.batch import MiniBatch
from headrace.pipeline.graph import Graph
from headrace.pipeline.stage import MacroStage, MapStage, Runner, RunSettings, Stage, verb
from headrace.pipeline.stages.checks import check_graph, check_positive, check_probability
from headrace.pipeline.stages.compact import Compact
from headrace.pipeline.stages.hop import Expand, check_items_fit


@verb("walk_hop")
@dataclass(frozen=True, eq=False, repr=False)
class WalkHop(MapStage):
    """Find the PinSAGE neighbours of the frontier and leave them, with global ids, for :class:`Compact` to number.

    Parameters
    ----------
    graph, num_neighbors, num_walks, walk_length, restart, weight, expand
        As for :class:`SamplePinsage`.
    layer
        Which hop this is, 0 next to the seeds; it keys the randomness.
    """

    graph: Graph
    num_neighbors: int
    num_walks: int
    walk_length: int
    restart: float = field(default=0.5, kw_only=True)
    layer: int = field(kw_only=True)
    weight: str | None = field(default=None, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hop"})

    def check(self, upstream: tuple[Stage, ...]) -> None:
        check_items_fit(self, self.graph, upstream)

    def runner(self, settings: RunSettings) -> Runner:
        weights = None if self.weight is None else walk_weights(self.graph, self.weight)

        def run(batch: MiniBatch) -> MiniBatch:
            first = 0 if self.expand == "all" else len(batch.n_id) - batch.num_sampled_nodes[-1]
            visits = pinsage_neighbors(
                self.graph.indptr,
                self.graph.indices,
                batch.n_id[first:],
                self.num_neighbors,
                num_walks=self.num_walks,
                walk_length=self.walk_length,
                restart=self.restart,
                key=stream_key(settings.seed, batch.epoch, batch.index, self.layer, WALK),
                weights=weights,
                num_threads=settings.num_threads,
            )
            positions = torch.empty(0, dtype=torch.int64)  # a neighbour may be several edges away
            return batch.replace(hop=Hop(visits.indptr, visits.neighbors, positions, visits.importance()))

        return run

    def counts(self, before: MiniBatch, after: MiniBatch) -> dict[str, int]:
        assert after.hop is not None
        rows = len(after.hop.indptr) - 1
        del before
        return {"edges": len(after.hop.neighbors), "walks": rows * self.num_walks}


@verb("sample_pinsage")
@dataclass(frozen=True, eq=False, repr=False)
class SamplePinsage(MacroStage):
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
        Steps of a walk.
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

    graph: Graph
    num_neighbors: int
    num_walks: int
    walk_length: int
    restart: float = 0.5
    num_layers: int = 1
    weight: str | None = field(default=None, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.verb, self.graph)
        for name in ("num_neighbors", "num_walks", "walk_length", "num_layers"):
            check_positive(self.verb, name, getattr(self, name))
        check_probability(self.verb, "restart", self.restart)
        if self.expand not in ("all", "new"):
            raise InputError(f"{self.verb}: expand must be 'all' or 'new'; {self.expand!r} came")
        if self.weight is not None:
            try:
                self.graph.edge_weights(self.weight)
            except GraphError as error:
                raise GraphError(f"{self.verb}: {error}") from error

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})

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
        graph.tables[name] = weight_sums(graph.indptr, graph.edge_weights(weight))
    table: WeightSums = graph.tables[name]
    return table
