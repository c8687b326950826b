"""GraphSAINT's independent draws of nodes and of edges: their laws, and norms that are exact."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data import MiniBatch
from headrace.pipeline.data.graph_machinery import kept, table
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Stage


@dataclass(frozen=True)
class SaintNorms:
    """The norms of nodes and edges, from known or estimated frequencies in subgraphs.

    Parameters
    ----------
    loss_weight: float32[num_nodes]
        1 / (num_nodes * probability that the node is in a subgraph); 0 for a node that is in none.
    edge_weight
        Takes a subgraph, its nodes, int64[num_drawn], and a number of threads; returns float32[num_edges].
    """

    loss_weight: Tensor
    edge_weight: Callable[[Subgraph, Tensor, int], Tensor]


@dataclass(frozen=True)
class SaintDraws(ABC):
    """How the nodes of a subgraph are drawn, and the norms that follow.

    Parameters
    ----------
    stage
        The name of the stage, for errors.
    graph
        The graph.
    """

    stage: str
    graph: GraphView

    #: The fields of a batch that a draw reads.
    reads: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def check(self, before: tuple[Stage, ...], *, norms: bool) -> None:
        """Refuse sources that do not fit, and sizes that no machine has memory for."""

    @abstractmethod
    def drawer(self, settings: RunSettings) -> Callable[[MiniBatch], Tensor]:
        """Return the function from a batch to the distinct nodes of its subgraph, int64[num_drawn]."""

    @abstractmethod
    def make_norms(self, settings: RunSettings, stage: Stage) -> SaintNorms:
        """Return the norms of the subgraphs that the drawer gives in plans with the stage."""

    def warn_of_left_out(self, num_left_out: int, what: str, advice: str) -> None:
        """Say how many nodes the norms know nothing of, if any."""
        if num_left_out > 0:
            warn_user(f"{self.stage}: {num_left_out} of {self.graph.num_nodes} nodes {what}; {advice}")


@dataclass(frozen=True)
class IndependentDraws(SaintDraws):
    """Base of the subgraphs of ``budget`` independent draws."""

    budget: int

    never_drawn: ClassVar[str]
    """The lack of nodes without probability, for the warning."""

    def check(self, before: tuple[Stage, ...], *, norms: bool) -> None:
        del before, norms
        # Draws, and the table and the order by which each node is found once.
        check_fits_memory(32 * self.budget, f"{self.stage}: got budget = {self.budget:,}", "lower it")

    @abstractmethod
    def law(self) -> NodeLaw | EdgeLaw:
        """Return the law of one draw."""

    def make_norms(self, settings: RunSettings, stage: Stage) -> SaintNorms:
        del settings, stage
        law, degrees = self.law(), self.graph.in_degrees()
        inclusion = inclusion_probability(law.probability, self.budget)
        loss_weight = torch.where(inclusion > 0, 1.0 / (self.graph.num_nodes * inclusion), 0.0).float()
        self._tell_of_never_drawn(law)

        def edge_weight(subgraph: Subgraph, nodes: Tensor, num_threads: int) -> Tensor:
            return subgraph_weights(subgraph, law, nodes, degrees[nodes], self.budget, num_threads=num_threads)

        return SaintNorms(loss_weight, edge_weight)

    def _tell_of_never_drawn(self, law: NodeLaw | EdgeLaw) -> None:
        """Warn, once for a graph, of nodes without probability."""
        name = f"nodes that {type(self).__name__} never draws"
        tables = kept(self.graph).tables
        if name not in tables:
            tables[name] = num_left_out = int((law.probability == 0).sum())
            num_drawn = self.graph.num_nodes - num_left_out
            self.warn_of_left_out(
                num_left_out,
                f"are never drawn, as they have no {self.never_drawn}, so the loss leaves them out",
                "to have them drawn, add self-loops to the graph; to have the mean loss of the others, multiply it by "
                f"{self.graph.num_nodes} / {num_drawn}",
            )


@dataclass(frozen=True)
class NodeDraws(IndependentDraws):
    """Nodes in proportion to the squared norms of their columns in the row-normalised adjacency matrix."""

    never_drawn: ClassVar[str] = "out-edges"

    def drawer(self, settings: RunSettings) -> Callable[[MiniBatch], Tensor]:
        law = self.law()

        def draw(batch: MiniBatch) -> Tensor:
            key = stream_key(settings.seed, batch.epoch, batch.index, 0, DRAW)
            return unique_and_inverse(draw_nodes(law, self.budget, key=key, num_threads=settings.num_threads))[0]

        return draw

    def law(self) -> NodeLaw:
        graph = self.graph
        return table(graph, "law of draws of nodes", lambda: node_law(graph.indptr, graph.indices))


@dataclass(frozen=True)
class EdgeDraws(IndependentDraws):
    """The ends of edges, which are drawn in proportion to 1 / in-degree of the destination."""

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
        return table(graph, "law of draws of edges", lambda: edge_law(graph.indptr, graph.indices))
