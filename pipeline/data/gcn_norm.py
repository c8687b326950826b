"""Symmetric normalisation of a graph convolution, by the degrees of the whole graph."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.ops.errors import GraphError
from headrace.ops.features.gather import gather_rows
from headrace.pipeline.data.graph import Graph


def gcn_norm(graph: Graph, weight: str | None = None) -> Tensor:
    """Return what a graph convolution multiplies messages by (arXiv 1609.02907).

    An edge u -> v of weight w has w / sqrt(d(u) d(v)), where d is the sum of the weights of in-edges, as in PyG. As
    degrees are those of the whole graph, every batch that holds all in-edges of a node computes the same for it:
    fetch it as a feature of edges, and minibatches, clusters with a boundary and the whole graph agree.

    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 1], [1, 0]).with_self_loops()
    >>> hr.gcn_norm(graph)
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    >>> store = hr.FeatureStore(edge={"norm": hr.gcn_norm(graph)})

    Parameters
    ----------
    graph
        Usually ``graph.with_self_loops()``, whose nodes hear themselves.
    weight
        The edge attribute that holds weights; all are 1 by default.

    Returns
    -------
    Tensor
        float32[num_edges], in the order of the edges that the graph was made of. Nodes without in-edges, or whose
        weights add up to 0, have 0.

    Raises
    ------
    GraphError
        If there is no such attribute, or it is not a number of at least 0 for each edge.
    """
    if not isinstance(graph, Graph):
        raise GraphError(f"gcn_norm: expected a whole Graph, got {type(graph).__name__}")
    row = torch.arange(graph.num_nodes).repeat_interleave(graph.in_degrees())
    weights = torch.ones(graph.num_edges) if weight is None else graph.edge_weights(weight)
    degree = torch.zeros(graph.num_nodes, dtype=torch.float64).index_add_(0, row, weights.double())
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    in_csc_order = (weights * scale[row] * gather_rows(scale, graph.indices)).float()
    if graph.edge_permutation is None:
        return in_csc_order
    out = torch.empty_like(in_csc_order)
    out[graph.edge_permutation.long()] = in_csc_order
    return out
