"""Nodes in the order of their times: of each type those that were there at some time are the first ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headrace.ops.errors import GraphError
from headrace.pipeline.data.graph_types import node_types_of
from headrace.pipeline.data.times import times_of

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

    def num_until(self, first: int, last: int, bounds: Tensor) -> Tensor:
        """Return how many nodes of a type, first, ..., last - 1, have a time of at most each bound: int64[n]."""
        return torch.searchsorted(self.times[first:last], bounds.contiguous(), right=True)


def nodes_by_time(graph: GraphView, name: str) -> NodesByTime:
    """Return the nodes by their times under a name, which are sorted once in the life of the graph.

    Raises
    ------
    GraphError
        If there are no such times of nodes.
    """
    return graph.table(f"nodes by time {name}", lambda: _sort(graph, name))


def _sort(graph: GraphView, name: str) -> NodesByTime:
    times = times_of(graph, name).nodes
    if times is None:
        raise GraphError(
            f"expected times of nodes under the name {name!r}, got times of edges alone; pass node_attrs={{{name!r}: "
            "...} when building the graph, or no time="
        )
    order = torch.empty(graph.num_nodes, dtype=torch.int64)
    bounds = node_types_of(graph).offsets.tolist()
    for first, last in pairwise(bounds):
        order[first:last] = times[first:last].argsort(stable=True) + first
    return NodesByTime(order, times[order])
