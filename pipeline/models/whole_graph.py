"""What layers ask of a graph of which each rank has all in-edges of its own nodes: degrees and loops."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

import torch
from torch import Tensor
from typing_extensions import Self

from headrace.pipeline.models.message_graph import MessageGraph

Graph = TypeVar("Graph", bound="WholeGraph")


class WholeGraph(MessageGraph):
    """A `MessageGraph` over whole neighbourhoods: a rank has all in-edges of the nodes that it owns."""

    @property
    @abstractmethod
    def destinations(self) -> Tensor:
        """The row of the destination of each edge, int64[num_edges]."""

    @property
    @abstractmethod
    def self_loops(self) -> Tensor:
        """The positions of edges from a node to itself: int64[n], ascending."""

    @abstractmethod
    def in_degrees(self) -> Tensor:
        """Return the number of in-edges of each owned node, int64[num_dst]."""

    @abstractmethod
    def sum_edges(self, values: Tensor) -> Tensor:
        """Return the sums of values of in-edges, [num_edges, ...] to [num_dst, ...]."""

    @abstractmethod
    def with_self_loops(self) -> Self:
        """Return the graph with one loop at each node, in place of any existing loops.

        In arrays of edges the entries of these loops follow all others, in the order of owned nodes.
        """


def with_remaining_loops(graph: Graph, weight: Tensor, fill: float) -> tuple[Graph, Tensor]:
    """Return the graph with one loop at each node, and the weights: those of loops that there were, else `fill`."""
    loops = graph.self_loops
    # The last one of several at a node.
    chosen = loops.new_full((graph.num_dst,), -1).scatter_reduce(0, graph.destinations[loops], loops, "amax")
    of_loops = torch.cat([weight, weight.new_full((1,), fill)])[chosen]  # -1 is the last entry
    return graph.with_self_loops(), torch.cat([weight, of_loops])


def sums_without_loops(graph: WholeGraph, values: Tensor) -> Tensor:
    """Return the sums of values of in-edges that come from other nodes, [num_edges, ...] to [num_dst, ...]."""
    return graph.sum_edges(values.index_fill(0, graph.self_loops, 0))


def means_without_loops(graph: WholeGraph, values: Tensor) -> Tensor:
    """Return their means; 0 for a node without such edges."""
    counts = (graph.with_self_loops().in_degrees() - 1).clamp(min=1).to(values.dtype)
    return sums_without_loops(graph, values) * (1 / counts).view(-1, *(1 for _ in values.shape[1:]))
