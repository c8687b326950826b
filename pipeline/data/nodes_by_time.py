"""Nodes, and ends of edges, in the order of their times: of each type those of before some time are the first ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headrace.ops.errors import GraphError
from headrace.ops.features.gather import gather_rows
from headrace.pipeline.data.graph_types import node_types_of
from headrace.pipeline.data.times import table_of_times, times_of

if TYPE_CHECKING:
    from headrace.pipeline.data.graph_view import GraphView


@dataclass(frozen=True, eq=False)
class NodesByTime:
    """The nodes of a graph, type by type, those of a type by time.

    Parameters
    ----------
    order: int64[num_nodes]
        Ids of the graph's own.
    times: int64[num_nodes] or float64[num_nodes]
        Theirs, ascending within a type.
    """

    order: Tensor
    times: Tensor

    def of_type(self, first: int, last: int) -> Tensor:
        """Return the nodes of a type, first, ..., last - 1, by time: int64[last - first]."""
        return self.order[first:last]

    def num_until(self, first: int, last: int, bounds: Tensor, *, strictly_before: bool = False) -> Tensor:
        """Return how many nodes of a type, first, ..., last - 1, have a time of each bound or earlier: int64[n]."""
        return torch.searchsorted(self.times[first:last], bounds.contiguous(), right=not strictly_before)


@dataclass(frozen=True, eq=False)
class EndsByTime:
    """The destinations of edges by the time at which these are there: until a time each node as often as its degree.

    Parameters
    ----------
    order: int64[num_edges]
        Ids of the graph's own; those of a type together, where its rows have their edges.
    times: int64[num_edges] or float64[num_edges]
        When the edges are there, ascending within a type.
    indptr: int64[num_nodes + 1]
        Of the graph.
    """

    order: Tensor
    times: Tensor
    indptr: Tensor

    def of_type(self, first: int, last: int) -> Tensor:
        """Return the destinations of edges to nodes first, ..., last - 1, by time."""
        return self.order[self.indptr[first] : self.indptr[last]]

    def num_until(self, first: int, last: int, bounds: Tensor, *, strictly_before: bool = False) -> Tensor:
        """Return how many edges to these nodes are there at each bound, or before it: int64[n]."""
        of_type = self.times[self.indptr[first] : self.indptr[last]]
        return torch.searchsorted(of_type, bounds.contiguous(), right=not strictly_before)


def ends_by_time(graph: GraphView, name: str) -> EndsByTime:
    """Return the destinations of edges by times under a name, sorted once: 16 bytes for each edge.

    An edge is there at the latest of its own time and of those of its ends, as far as the graph has them.

    Raises
    ------
    GraphError
        If there are no times under that name.
    """
    return table_of_times(graph, name, "ends by time", lambda: _sort_ends(graph, name))


def nodes_by_time(graph: GraphView, name: str) -> NodesByTime:
    """Return the nodes by their times under a name, which are sorted once in the life of the graph.

    Raises
    ------
    GraphError
        If there are no such times of nodes.
    """
    return table_of_times(graph, name, "nodes by time", lambda: _sort(graph, name))


def _sort_ends(graph: GraphView, name: str) -> EndsByTime:
    known = times_of(graph, name)
    ends = torch.arange(graph.num_nodes, device="cpu").repeat_interleave(graph.indptr.diff())
    times = known.edges
    if known.nodes is not None:
        of_ends = torch.maximum(known.nodes[ends], gather_rows(known.nodes, graph.indices))
        times = of_ends if times is None else torch.maximum(times, of_ends)
    assert times is not None  # one of the two is there
    order = torch.empty_like(ends)
    for first, last in pairwise(graph.indptr[node_types_of(graph).offsets].tolist()):
        order[first:last] = times[first:last].argsort(stable=True) + first
    return EndsByTime(ends[order], times[order], graph.indptr)


def _sort(graph: GraphView, name: str) -> NodesByTime:
    times = times_of(graph, name).nodes
    if times is None:
        raise GraphError(
            f"expected times of nodes under the name {name!r}, got times of edges alone; pass node_attrs={{{name!r}: "
            "...} when building the graph, or no time="
        )
    order = torch.empty(graph.num_nodes, dtype=torch.int64, device="cpu")
    bounds = node_types_of(graph).offsets.tolist()
    for first, last in pairwise(bounds):
        order[first:last] = times[first:last].argsort(stable=True) + first
    return NodesByTime(order, times[order])
