"""Graphs whose arrays are in memory that processes share."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torch import Tensor

from headrace.pipeline.data.graph_machinery import kept
from headrace.pipeline.data.shared_memory import MOVING, shared_copy

if TYPE_CHECKING:
    from headrace.pipeline.data.graph_view import GraphView

#: The arrays of a graph, and those that it has by name.
ARRAYS = ("indptr", "indices", "edge_permutation", "node_ids", "edge_times")
_BY_NAME = ("edge_attrs_csc", "node_attrs")


def share_graph(graph: GraphView) -> None:
    """Put copies in shared memory in the place of a graph's arrays; `GraphView.share_memory` documents it.

    The values are the same, so threads that read the graph meanwhile may have arrays of both kinds. What they have
    keeps the old ones.
    """
    known: dict[Any, Tensor] = {}
    with MOVING.held():
        _share(graph, known)


def _moved(graph: GraphView, moved: dict[str, Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the arrays of a graph that get another place, each with its copy."""
    for name, there in moved.items():
        if name in _BY_NAME:
            yield from ((array, there[key]) for key, array in getattr(graph, name).items())
        else:
            yield getattr(graph, name), there


def _share(graph: GraphView, known: dict[Any, Tensor]) -> None:
    noted = [one for some in list(kept(graph).seen.values()) for one in list(some)]
    for seen in noted:
        seen.check()  # a copy would take what was written
    moved: dict[str, Any] = {}
    for name in ARRAYS:
        array = getattr(graph, name)
        if array is not None:
            there = shared_copy(array, known)
            moved |= {} if there is array else {name: there}
    for name in _BY_NAME:
        arrays = getattr(graph, name)
        there_by_name = {key: shared_copy(array, known) for key, array in arrays.items()}
        if any(there_by_name[key] is not array for key, array in arrays.items()):
            moved[name] = MappingProxyType(there_by_name)
    copies = {id(array): there for array, there in _moved(graph, moved)}
    for seen in noted:
        if id(seen.array) in copies:
            seen.move(copies[id(seen.array)])
    for name, value in moved.items():
        object.__setattr__(graph, name, value)  # the graph is frozen: its values stay
    if moved:
        kept(graph).forget_samplers()
    for table in list(kept(graph).tables.values()):
        if isinstance(table, type(graph)):  # the graph in the order of times, which has arrays in common with this one
            _share(table, known)
