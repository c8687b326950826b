"""GraphSAINT's edge sampler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from headrace.ops.random.rng import DRAW, stream_key
from headrace.ops.sampling.compact import unique_and_inverse
from headrace.ops.sampling.saint import EdgeLaw, draw_edges, edge_law
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.graph_machinery import table
from headrace.pipeline.plan.stage import RunSettings
from headrace.pipeline.plan.verbs import verb
from headrace.pipeline.stages.saint_sampler import DrawSampler


@verb("sample_saint_edge")
@dataclass(frozen=True, eq=False, repr=False)
class SampleSaintEdge(DrawSampler):
    """Train on the subgraph between the ends of drawn edges: GraphSAINT's edge sampler (arXiv 1907.04931).

    Each batch draws ``budget`` edges, independently and with replacement, edge u -> v in proportion to 1 /
    in-degree(v), by exactly uniform integers. If every edge exists in both directions, u and v can be drawn by either,
    and this is the law of the paper, 1 / degree(u) + 1 / degree(v). The items of the source only give the number of
    batches and the position, as for ``sample_saint_node``.

    The norms have a closed form and are exact; nothing is sampled beforehand.
    :class:`~headrace.pipeline.stages.saint_sampler.SaintSampler` describes the contents of the batch.

    Parameters
    ----------
    graph
        The graph to sample from.
    budget
        Edges to draw per batch; the subgraph has at most twice as many nodes, and all edges between them.
    norms, edge_ids
        As for ``sample_saint_node``.

    Raises
    ------
    InputError
        For a subject that is not a graph or has no edges, or a budget below 1.
    PlanError
        If the source has labels, or several ranks would share a batch.
    """

    never_drawn: ClassVar[str] = "edges"

    def drawer(self, settings: RunSettings) -> Callable[[MiniBatch], Tensor]:
        law, graph = self.law(), self.graph

        def draw(batch: MiniBatch) -> Tensor:
            key = stream_key(settings.seed, batch.epoch, batch.index, 0, DRAW)
            threads = settings.num_threads
            ends = draw_edges(graph.indptr, graph.indices, law, self.budget, key=key, num_threads=threads)
            return unique_and_inverse(ends.reshape(-1))[0]

        return draw

    def law(self) -> EdgeLaw:
        graph = self.graph
        return table(graph, "law of sample_saint_edge", lambda: edge_law(graph.indptr, graph.indices))
