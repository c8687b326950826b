"""GraphSAINT's node sampler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from headrace.ops.random.rng import DRAW, stream_key
from headrace.ops.sampling.compact import unique_and_inverse
from headrace.ops.sampling.saint import NodeLaw, draw_nodes, node_law
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.graph_machinery import table
from headrace.pipeline.plan.stage import RunSettings
from headrace.pipeline.plan.verbs import verb
from headrace.pipeline.stages.saint_sampler import DrawSampler


@verb("sample_saint_node")
@dataclass(frozen=True, eq=False, repr=False)
class SampleSaintNode(DrawSampler):
    """Train on the subgraph of drawn nodes: GraphSAINT's node sampler (arXiv 1907.04931).

    Each batch draws ``budget`` nodes, independently and with replacement, node u in proportion to the sum over its
    out-neighbours w of 1 / in-degree(w) ** 2, which is the squared norm of u's column in the row-normalised adjacency
    matrix. A node without out-edges is never drawn. The items of the source only give the number of batches of an
    epoch. The drawn nodes depend on the source's seed, the epoch and the batch index.

    The norms have a closed form and are exact; nothing is sampled beforehand.
    :class:`~headrace.pipeline.stages.saint_sampler.SaintSampler` describes the contents of the batch.

    Parameters
    ----------
    graph
        The graph to sample from.
    budget
        Draws per batch; the subgraph has at most that many nodes.
    norms
        Whether the batch has ``node["loss_weight"]`` and ``Block.weight``.
    edge_ids
        Whether the block carries the original ids of its edges.

    Raises
    ------
    InputError
        For a subject that is not a graph or has no edges, or a budget below 1.
    PlanError
        If the source has labels, or several ranks would share a batch.
    """

    never_drawn: ClassVar[str] = "out-edges"

    def drawer(self, settings: RunSettings) -> Callable[[MiniBatch], Tensor]:
        law = self.law()

        def draw(batch: MiniBatch) -> Tensor:
            key = stream_key(settings.seed, batch.epoch, batch.index, 0, DRAW)
            return unique_and_inverse(draw_nodes(law, self.budget, key=key, num_threads=settings.num_threads))[0]

        return draw

    def law(self) -> NodeLaw:
        graph = self.graph
        return table(graph, "law of sample_saint_node", lambda: node_law(graph.indptr, graph.indices))
