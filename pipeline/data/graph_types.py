"""What the types of a graph's nodes and edges mean for its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headrace.ops.sampling.typed_rows import TypedRows, typed_rows
from headrace.pipeline.data.types import TypedIds, TypeOffsets

if TYPE_CHECKING:
    from headrace.pipeline.data.graph_view import GraphView


def node_types_of(graph: GraphView) -> TypeOffsets:
    """Return the node types; all nodes are of the type "node" where a graph has none."""
    return TypeOffsets.from_counts({"node": graph.num_nodes}) if graph.node_types is None else graph.node_types


def edge_types_of(graph: GraphView) -> TypeOffsets:
    """Return the edge types; all edges are of the type "edge" where a graph has none."""
    return TypeOffsets.from_counts({"edge": graph.num_edges}) if graph.edge_types is None else graph.edge_types


def ends_of(node_types: TypeOffsets, edge_types: TypeOffsets) -> tuple[tuple[int, ...], ...]:
    """Return of each edge type the node types that it may end in: that of the triple, or any for a plain name."""
    everywhere = tuple(range(node_types.num_types))
    return tuple(
        (node_types.names.index(name[2]),) if isinstance(name, tuple) and name[2] in node_types.names else everywhere
        for name in edge_types.names
    )


def typed_ids(graph: GraphView, ids: Tensor) -> TypedIds | None:
    """Return ids of nodes with the types of the graph, if it has some."""
    return TypedIds(node_types_of(graph), edge_types_of(graph), ids) if graph.is_typed else None


def rows_of(graph: GraphView) -> TypedRows:
    """Find the rows of a graph with types, which are sorted by edge type.

    Raises
    ------
    InputError
        If they are not, or an edge ends in a node of another type than its own says.
    """
    node_types, edge_types = node_types_of(graph), edge_types_of(graph)
    own = graph._own_nodes  # noqa: SLF001 - of this wing
    offsets = node_types.offsets if own is None else torch.searchsorted(own, node_types.offsets)
    rows = typed_rows(
        graph.indptr,
        edge_types.offsets,
        graph.edge_permutation,
        tuple(offsets.tolist()),
        ends_of(node_types, edge_types),
    )
    return rows if own is None else rows.of_part(own, tuple(node_types.offsets.tolist()))


def order_by_type(indptr: Tensor, edge_ids: Tensor, edge_types: TypeOffsets) -> Tensor | None:
    """Return the CSC positions in the order of edge types within each row, int64[num_edges]; None if they are so."""
    types = edge_types.numbers_of(edge_ids)
    rows = torch.arange(len(indptr) - 1, device="cpu").repeat_interleave(indptr.diff())
    keys = rows * edge_types.num_types + types
    if not bool((keys[1:] < keys[:-1]).any()):
        return None
    return keys.argsort(stable=True)
