"""GraphSAINT's node and edge samplers: subgraphs of independent draws, whose norms are exact."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops.memory_limit import check_fits_memory
from headrace.ops.random.rng import DRAW, stream_key
from headrace.ops.sampling.compact import unique_and_inverse
from headrace.ops.sampling.saint import (
    EdgeLaw,
    NodeLaw,
    Subgraph,
    draw_edges,
    draw_nodes,
    edge_law,
    inclusion_probability,
    node_law,
    subgraph_weights,
)
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.graph_machinery import kept, table
from headrace.pipeline.plan.checks import make_positive
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.plan.verbs import verb
from headrace.pipeline.stages.saint_sampler import SaintNorms, SaintSampler, warn_of_left_out


@dataclass(frozen=True, eq=False, repr=False)
class DrawSampler(SaintSampler):
    """Base of the samplers with subgraphs of ``budget`` independent draws: their norms are exact."""

    never_drawn: ClassVar[str]
    """Which nodes have no probability, for the warning."""

    budget: int

    def __post_init__(self) -> None:
        super().__post_init__()
        make_positive(self, "budget")

    def check(self, before: tuple[Stage, ...]) -> None:
        super().check(before)
        # Draws, and the table and the order by which each node is found once.
        check_fits_memory(32 * self.budget, f"{self.name}: got budget = {self.budget:,}", "lower it")

    @abstractmethod
    def law(self) -> NodeLaw | EdgeLaw:
        """Return the law of one draw."""

    def make_norms(self, settings: RunSettings) -> SaintNorms:
        del settings
        law, degrees = self.law(), self.graph.in_degrees()
        inclusion = inclusion_probability(law.probability, self.budget)
        loss_weight = torch.where(inclusion > 0, 1.0 / (self.graph.num_nodes * inclusion), 0.0).float()
        self._tell_of_never_drawn(law)

        def edge_weight(subgraph: Subgraph, nodes: Tensor, num_threads: int) -> Tensor:
            return subgraph_weights(subgraph, law, nodes, degrees[nodes], self.budget, num_threads=num_threads)

        return SaintNorms(loss_weight, edge_weight)

    def _tell_of_never_drawn(self, law: NodeLaw | EdgeLaw) -> None:
        """Warn, once for a graph, of nodes without probability."""
        name = f"nodes that {self.name} never draws"
        tables = kept(self.graph).tables
        if name not in tables:
            tables[name] = num_left_out = int((law.probability == 0).sum())
            num_drawn = self.graph.num_nodes - num_left_out
            warn_of_left_out(
                self,
                num_left_out,
                f"are never drawn, as they have no {self.never_drawn}, so the loss leaves them out",
                "to have them drawn, add self-loops to the graph; to have the mean loss of the others, multiply it by "
                f"{self.graph.num_nodes} / {num_drawn}",
            )


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
