"""Graphs from which edges were taken by hand."""

from __future__ import annotations

import torch

import headrace as hr


def without_edges(graph: hr.Graph, pairs: torch.Tensor, *, reverse: bool) -> tuple[hr.Graph, torch.Tensor]:
    """The graph without the edges between pairs, and the ids that its edges have in the whole graph."""
    gone = {(u, v) for u, v in pairs.tolist()}
    gone |= {(v, u) for u, v in gone} if reverse else set()
    ends = torch.arange(graph.num_nodes).repeat_interleave(graph.indptr.diff())
    # In the order of input ids, as from_coo takes them.
    edges = torch.stack([graph.indices.long(), ends])[:, graph.edge_ids.argsort()]
    kept = torch.tensor([i for i, edge in enumerate(edges.t().tolist()) if tuple(edge) not in gone])
    weight = graph.edge_attrs["weight"][kept]
    return hr.Graph.from_coo(*edges[:, kept], num_nodes=graph.num_nodes, edge_attrs={"weight": weight}), kept
