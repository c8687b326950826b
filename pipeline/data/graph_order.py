"""Graphs whose nodes are renumbered."""

from __future__ import annotations

from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import GraphError
from headrace.ops.features.gather import gather_rows
from headrace.ops.graphs.reorder import reorder_csc
from headrace.pipeline.data.arrays import as_ids
from headrace.pipeline.data.graph import Graph


def reordered(graph: Graph, order: ArrayLike | Tensor) -> Graph:
    """Return a graph whose node i is node ``order[i]``; `hr.Graph.reordered` documents it."""
    if graph.node_types is not None:
        raise GraphError(
            "Graph.reordered: node types are ranges of ids, which an order would tear apart; graphs with node types "
            "cannot be reordered in this version"
        )
    ids = as_ids(order, "order", GraphError)
    csc = reorder_csc(graph.indptr, graph.indices, ids)
    node_ids = None if graph.node_ids is None else gather_rows(graph.node_ids, ids)
    edge_ids, edge_attrs = graph.edge_permutation, graph.edge_attrs_csc
    if csc.edge_ids is not None:
        edge_ids = csc.edge_ids if edge_ids is None else gather_rows(edge_ids, csc.edge_ids)
        edge_attrs = {name: gather_rows(rows, csc.edge_ids) for name, rows in edge_attrs.items()}
    node_attrs = {name: gather_rows(rows, ids) for name, rows in graph.node_attrs.items()}
    return Graph(csc.indptr, csc.indices, edge_ids, edge_attrs, None, graph.edge_types, node_ids, node_attrs)
