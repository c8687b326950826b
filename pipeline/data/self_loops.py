"""Graphs in which every node has an edge to itself."""

from __future__ import annotations

import math

import torch

from headrace.ops.errors import GraphError
from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.data.arrays import as_number
from headrace.pipeline.data.graph import Graph


def with_self_loops(graph: Graph, fill: float) -> Graph:
    """Return a graph with a loop at each node that had none; `hr.Graph.with_self_loops` documents it."""
    if graph.edge_types is not None:
        raise GraphError("Graph.with_self_loops: edge types are ranges of edge ids, to which loops cannot be added")
    _check_fill(graph, fill)
    num_nodes, num_edges = graph.num_nodes, graph.num_edges
    row = torch.arange(num_nodes, device="cpu").repeat_interleave(graph.in_degrees())
    lacks = torch.ones(num_nodes, dtype=torch.bool, device="cpu")
    lacks[row[graph.indices == row]] = False
    lacking = lacks.nonzero().reshape(-1)
    added = starts_of(lacks)
    indptr = graph.indptr + added
    at = torch.arange(num_edges, device="cpu") + added[row]  # a loop comes last in its row
    loops_at = indptr[lacking + 1] - 1

    def joined(of_edges: torch.Tensor, of_loops: torch.Tensor | float) -> torch.Tensor:
        out = of_edges.new_empty((num_edges + len(lacking), *of_edges.shape[1:]))
        out[at] = of_edges
        out[loops_at] = of_loops
        return out

    ids = joined(graph.edge_ids.long(), torch.arange(num_edges, num_edges + len(lacking), device="cpu"))
    in_order = bool((ids == torch.arange(len(ids), device="cpu")).all())
    if len(ids) <= torch.iinfo(torch.int32).max:
        ids = ids.int()
    attributes = {name: joined(rows, fill) for name, rows in graph.edge_attrs_csc.items()}
    indices = joined(graph.indices, lacking.to(graph.indices.dtype))
    edge_ids = None if in_order else ids
    return Graph(
        indptr, indices, edge_ids, attributes, graph.node_types, None, graph.node_ids, node_attrs=graph.node_attrs
    )


def _check_fill(graph: Graph, fill: object) -> None:
    """Refuse what is no number, or not one that each attribute can hold."""
    number = as_number(fill)
    if number is None:
        raise GraphError(
            f"Graph.with_self_loops: expected fill to be a number, got {fill!r}; pass what loops have of edge "
            "attributes, such as 1.0"
        )
    for name, rows in graph.edge_attrs_csc.items():
        if not (rows.dtype.is_floating_point or rows.dtype.is_complex):
            info = (0, 1) if rows.dtype == torch.bool else (torch.iinfo(rows.dtype).min, torch.iinfo(rows.dtype).max)
            if not math.isfinite(number) or number != int(number) or not info[0] <= number <= info[1]:
                kind = str(rows.dtype).removeprefix("torch.")
                raise GraphError(
                    f"Graph.with_self_loops: expected a fill that edge_attrs[{name!r}] can hold, which is {kind}, got "
                    f"{number}; pass a whole number in its range, or make it floating point"
                )
