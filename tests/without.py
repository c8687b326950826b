"""Graphs from which edges were taken by hand."""

from __future__ import annotations

import torch

import headrace as hr


def without_edges(graph: hr.Graph, pairs: torch.Tensor, *, reverse: bool) -> tuple[hr.Graph, torch.Tensor]:
    """The graph without the edges between pairs, and the ids that its edges have in the whole graph."""
    gone = {(u, v) for u, v in pairs.tolist()}
    gone |= {(v, u) for u, v in gone} if reverse else set()
    ids = [i for i, edge in enumerate(edges_by_id(graph).t().tolist()) if tuple(edge) in gone]
    return without_ids(graph, ids)


def without_ids(graph: hr.Graph, gone: list[int]) -> tuple[hr.Graph, torch.Tensor]:
    """The graph without edges of some ids, and the ids that its edges have in the whole graph."""
    kept = torch.ones(graph.num_edges, dtype=torch.bool)
    kept[torch.tensor(gone, dtype=torch.int64)] = False
    kept = kept.nonzero().squeeze(1)
    attributes = {name: values[kept] for name, values in graph.edge_attrs.items()}
    edges = edges_by_id(graph)[:, kept]
    return hr.Graph.from_coo(*edges, num_nodes=graph.num_nodes, edge_attrs=attributes), kept


def edges_by_id(graph: hr.Graph) -> torch.Tensor:
    """Sources and destinations in the order of input ids, as from_coo takes them."""
    ends = torch.arange(graph.num_nodes).repeat_interleave(graph.indptr.diff())
    return torch.stack([graph.indices.long(), ends])[:, graph.edge_ids.argsort()]
