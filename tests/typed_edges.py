"""The edges of a typed graph, as PyG lists them."""

from __future__ import annotations

import torch

import headrace as hr


def whole(graph: hr.Graph) -> tuple[torch.Tensor, torch.Tensor, dict]:
    """The edges in input order with the number of the type of each, and those of each type in its own numbers."""
    ends = torch.empty(2, graph.num_edges, dtype=torch.int64)
    destinations = torch.arange(graph.num_nodes).repeat_interleave(graph.in_degrees())
    ends[:, graph.edge_ids.long()] = torch.stack([graph.indices.long(), destinations])
    numbers = graph.edge_types.type_of(torch.arange(graph.num_edges))
    starts = {name: graph.node_types.id_range(name).start for name in graph.node_types.names}
    by_type = {
        one: ends[:, numbers == number] - torch.tensor([[starts[one[0]]], [starts[one[2]]]])
        for number, one in enumerate(graph.edge_types.names)
    }
    return ends, numbers, by_type
