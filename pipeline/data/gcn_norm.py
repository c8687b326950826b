"""Symmetric normalisation of a graph convolution, by the degrees of the whole graph."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from headrace.ops import InputError, gather_rows
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.seen import seen_of

#: Edges that are looked at together: what is computed on the way takes some 50 bytes for each.
CHUNK = 1 << 20


def gcn_norm(graph: Graph, weight: str | None = None) -> Tensor:
    """Return the factors of messages in a graph convolution (arXiv 1609.02907).

    The factor of an edge u -> v of weight w is w / sqrt(d(u) d(v)), where d is the sum of the weights of in-edges, as
    in PyG. Degrees are those of the whole graph. Fetch the factors as a feature of edges: every batch with all in-edges
    of a node then computes the same output for it, whether a minibatch, clusters with a boundary or the whole graph.
    With sampled in-edges the sum is smaller: multiply it by the in-degree in the graph over that in the block.

    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 1], [1, 0]).with_self_loops()
    >>> hr.gcn_norm(graph)
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    >>> store = hr.FeatureStore(edge={"norm": hr.gcn_norm(graph)})

    Parameters
    ----------
    graph
        Usually ``graph.with_self_loops()``, so that each node receives its own message.
    weight
        Name of the edge attribute with weights; by default all weights are 1.

    Returns
    -------
    Tensor
        float32[num_edges], in the input edge order. Edges of nodes without in-edges, or with a sum of weights of 0,
        have 0.

    Raises
    ------
    InputError
        If there is no such attribute, or it is not a number of at least 0 for each edge.
    """
    if not isinstance(graph, Graph):
        raise InputError(f"gcn_norm: expected a whole Graph, got {type(graph).__name__}")
    weights = None if weight is None else graph.edge_weights(weight)
    for seen in seen_of(graph, weight, None):
        seen.check()  # of other dtypes a copy is kept
    if weights is None:
        degree = graph.in_degrees().double()
    else:
        degree = torch.zeros(graph.num_nodes, dtype=torch.float64, device="cpu")
        for edges, row in _chunks(graph):
            degree.index_add_(0, row, weights[edges].double())
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    ids = graph.edge_permutation
    out = torch.empty(graph.num_edges, dtype=torch.float32, device="cpu")
    for edges, row in _chunks(graph):
        norm = gather_rows(scale, row) if weights is None else weights[edges] * gather_rows(scale, row)
        norm = (norm * gather_rows(scale, graph.indices[edges])).float()
        out[edges if ids is None else ids[edges].long()] = norm
    return out


def _chunks(graph: Graph) -> Iterator[tuple[slice, Tensor]]:
    """Yield where edges are in CSC order, and the destination of each of these, int64[at most CHUNK]."""
    for start in range(0, graph.num_edges, CHUNK):
        stop = min(start + CHUNK, graph.num_edges)
        # The rows that have edges here: the last that begins by the first of them, to the first that ends behind all.
        first = int(torch.searchsorted(graph.indptr, start, right=True)) - 1
        last = int(torch.searchsorted(graph.indptr, stop))
        counts = graph.indptr[first : last + 1].clamp(start, stop).diff()
        yield slice(start, stop), torch.arange(first, last, device="cpu").repeat_interleave(counts)
