"""Attributes of graphs of PyG, DGL and GraphBolt: where a graph has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.ops.names import no_attribute_of

if TYPE_CHECKING:
    from headrace.pipeline.data.graph_view import GraphView

_FEATURES = 'features are beside the graph: hr.FeatureStore(node={"x": x}, edge={"w": w})'
_IN_EDGES = "graph.indices[graph.indptr[v] : graph.indptr[v + 1]] are the sources of the in-edges of node v"
_MOVED = "put .copy_to(device) into the plan"

_INSTEAD: dict[str, str] = {
    **dict.fromkeys(("x", "y", "ndata", "edata", "edge_attr", "srcdata", "dstdata"), _FEATURES),
    **dict.fromkeys(("edge_index", "adj_t", "edges", "in_edges", "predecessors", "all_edges"), _IN_EDGES),
    "nodes": "nodes are range(graph.num_nodes)",
    **dict.fromkeys(("to", "cuda", "pin_memory", "pin_memory_"), _MOVED),
    **dict.fromkeys(("number_of_nodes", "total_num_nodes"), "write graph.num_nodes"),
    **dict.fromkeys(("number_of_edges", "total_num_edges"), "write graph.num_edges"),
    "csc_indptr": "write graph.indptr",
    "edge_weight": 'graph.edge_attrs["weight"] has those that were given as edge_attrs={"weight": ...}',
    "edge_attributes": "write graph.edge_attrs",
    "node_attributes": "write graph.node_attrs",
    "ntypes": "write graph.node_types.names",
    "metadata": "graph.node_types.names and graph.edge_types.names have the types",
    **dict.fromkeys(("etypes", "canonical_etypes"), "write graph.edge_types.names"),
}

#: Names of ways to make a graph -> those of `hr.Graph`.
MADE_OTHERWISE: dict[str, str] = {
    "from_csr": "write hr.Graph.from_csc(indptr, indices), whose row v has the in-neighbours of node v; if rows have "
    "out-neighbours, write hr.Graph.from_scipy(matrix) or hr.Graph.from_coo(src, dst, num_nodes=...)",
    **dict.fromkeys(
        ("from_edge_index", "from_edge_list", "from_edges"), "write hr.Graph.from_coo(*edge_index, num_nodes=...)"
    ),
    "from_networkx": "write hr.Graph.from_scipy(networkx.to_scipy_sparse_array(g))",
}


def missing(graph: GraphView, name: str) -> AttributeError:
    """Return the error for an attribute that a graph does not have: where it is, or the nearest name."""
    kind = type(graph).__name__
    return no_attribute_of(graph, f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}", name, _INSTEAD.get)
