"""From a list of edges, or from arrays in CSC form, to a graph, in little memory beyond both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops import InputError, check_csc, coo_to_csc, gather_rows
from headrace.pipeline.data.arrays import are_each_once, as_ids, describe, whole_number
from headrace.pipeline.data.edge_attrs import EdgeAttrs
from headrace.pipeline.data.graph_types import order_by_type
from headrace.pipeline.data.graph_view import as_attributes
from headrace.pipeline.data.types import TypeCounts, TypeOffsets, as_type_offsets, check_edge_ends

if TYPE_CHECKING:
    from headrace.pipeline.data.graph import Graph

_LARGEST = torch.iinfo(torch.int32).max


def as_edges(
    src: ArrayLike | Tensor,
    dst: ArrayLike | Tensor | None,
    num_nodes: Any,
    node_types: TypeOffsets | TypeCounts | None,
) -> tuple[Tensor, Tensor, int]:
    """Return the sources and destinations of edges and the number of nodes, or refuse what is not as many ids of each.

    There are as many nodes as was said, as their types have, or one more than the largest id.
    """
    if dst is None or (isinstance(src, (Tensor, np.ndarray)) and src.ndim == 2 and len(src) == 2):
        came = describe(src) if isinstance(src, (Tensor, np.ndarray)) else type(src).__name__
        raise InputError(
            f"Graph.from_coo: expected ids of sources and of destinations, got {came} as src"
            f"{' and no dst' if dst is None else ''}; of an edge_index pass both rows: "
            "from_coo(edge_index[0], edge_index[1], num_nodes=...)"
        )
    src, dst = as_ids(src, "src"), as_ids(dst, "dst")
    if src.shape != dst.shape:
        raise InputError(
            f"Graph.from_coo: expected src and dst of equal length, got {src.numel()} and {dst.numel()} ids"
        )
    if num_nodes is None and node_types is not None:
        types = node_types if isinstance(node_types, TypeOffsets) else TypeOffsets.from_counts(node_types)
        num_nodes = types.num_ids
    elif num_nodes is None:
        num_nodes = 1 + max((int(ids.max()) for ids in (src, dst) if ids.numel()), default=-1)
    number = whole_number(num_nodes, "Graph.from_coo: num_nodes", 0, InputError)
    check_has_nodes(number)
    return src, dst, number


def graph_of_ends(
    cls: type[Graph],
    ends: list[Tensor],
    num_nodes: int,
    *,
    edge_attrs: Mapping[str, ArrayLike | Tensor] | None = None,
    node_attrs: Mapping[str, ArrayLike | Tensor] | None = None,
    node_types: TypeOffsets | TypeCounts | None = None,
    edge_types: TypeOffsets | TypeCounts | None = None,
    num_threads: int | None = None,
) -> Graph:
    """Return a graph of edges; `Graph.from_coo` documents the rest.

    Parameters
    ----------
    ends
        Sources and destinations. The list is emptied, and what nobody else has is given back before attributes are put
        in order.
    """
    src, dst = ends
    ends.clear()
    attributes = as_attributes(edge_attrs, src.numel())
    node_types = as_type_offsets(node_types, num_nodes, "node_types")
    edge_types = as_type_offsets(edge_types, src.numel(), "edge_types")
    csc = coo_to_csc(src, dst, num_nodes, num_threads=num_threads)
    check_edge_ends(src, dst, node_types, edge_types)
    del src, dst
    if csc.edge_ids is not None:
        attributes = {name: gather_rows(tensor, csc.edge_ids) for name, tensor in attributes.items()}
    of_nodes = as_attributes(node_attrs, num_nodes, "node")
    return cls(csc.indptr, csc.indices, csc.edge_ids, attributes, node_types, edge_types, None, of_nodes)


def graph_of_csc(
    cls: type[Graph],
    indptr: ArrayLike | Tensor,
    indices: ArrayLike | Tensor,
    edge_ids: ArrayLike | Tensor | None,
    *,
    edge_attrs: Mapping[str, ArrayLike | Tensor] | None,
    node_attrs: Mapping[str, ArrayLike | Tensor] | None,
    node_types: TypeOffsets | TypeCounts | None,
    edge_types: TypeOffsets | TypeCounts | None,
) -> Graph:
    """Return a graph of arrays in CSC form; `Graph.from_csc` documents them."""
    if isinstance(edge_attrs, EdgeAttrs):
        raise InputError(
            "Graph.from_csc: expected edge_attrs in CSC order, got another graph's in input order; pass its "
            "edge_attrs_csc"
        )
    indptr = as_ids(indptr, "indptr").to(torch.int64).contiguous()
    indices = as_ids(indices, "indices").contiguous()
    num_nodes = indptr.numel() - 1
    if num_nodes < 1:
        raise InputError(
            f"Graph.from_csc: expected indptr of num_nodes + 1 >= 2 entries, got {indptr.numel()}; "
            "a graph may be without edges, but not without nodes"
        )
    check_csc(indptr, indices, num_nodes)
    if indices.dtype == torch.int64 and num_nodes <= torch.iinfo(torch.int32).max:
        indices = indices.to(torch.int32)
    permutation = None if edge_ids is None else as_permutation(edge_ids, indices.numel())
    attributes = as_attributes(edge_attrs, indices.numel())
    edge_types = as_type_offsets(edge_types, indices.numel(), "edge_types")
    if edge_types is not None:
        ids = torch.arange(indices.numel(), device="cpu") if permutation is None else permutation
        order = order_by_type(indptr, ids, edge_types)
        if order is not None:
            indices, permutation = gather_rows(indices, order), gather_rows(ids, order)
            attributes = {name: gather_rows(rows, order) for name, rows in attributes.items()}
    node_types = as_type_offsets(node_types, num_nodes, "node_types")
    of_nodes = as_attributes(node_attrs, num_nodes, "node")
    return cls(indptr, indices, permutation, attributes, node_types, edge_types, node_attrs=of_nodes)


def as_permutation(edge_ids: ArrayLike | Tensor, num_edges: int) -> Tensor:
    """Return edge ids as a tensor, or refuse them if they are not each of 0, ..., num_edges - 1 once."""
    ids = as_ids(edge_ids, "edge_ids").contiguous()
    if ids.numel() != num_edges:
        raise InputError(f"Graph.from_csc: expected edge_ids for {num_edges} edges, got {ids.numel()}")
    if not are_each_once(ids):
        low, high = (int(value) for value in torch.aminmax(ids))
        repeats = " with repeats" if low >= 0 and high < num_edges else ""
        raise InputError(
            f"Graph.from_csc: expected edge_ids to be a permutation of 0 to {num_edges - 1}, got ids from {low} to "
            f"{high}{repeats}; keep other keys of your edges as an edge attribute"
        )
    return ids


def ends_in_input_order(graph: Graph) -> tuple[Tensor, Tensor]:
    """Return the sources and the destinations of the edges of a graph, by their input ids."""
    dst = torch.arange(graph.num_nodes, dtype=graph.indices.dtype, device="cpu").repeat_interleave(graph.in_degrees())
    if graph.edge_permutation is None:
        return graph.indices, dst
    order = graph.edge_permutation.long()
    return torch.empty_like(dst).scatter_(0, order, graph.indices), torch.empty_like(dst).scatter_(0, order, dst)


def check_has_nodes(num_nodes: int) -> None:
    """Refuse a graph without nodes."""
    if num_nodes < 1:
        raise InputError(
            f"Graph.from_coo: expected at least one node, got num_nodes={num_nodes}; "
            "a graph may be without edges, but not without nodes: pass num_nodes= when there are no edges"
        )


def joined_ends(relations: Iterable[tuple[Tensor, Tensor, int, int]]) -> list[Tensor]:
    """Return the sources and the destinations of the edges of all types in one id space, as narrow as they fit.

    Parameters
    ----------
    relations
        For each edge type its sources and destinations, and the first ids of their types.
    """
    parts = list(relations)
    sources = [(source, offset) for source, _, offset, _ in parts]
    destinations = [(destination, offset) for _, destination, _, offset in parts]
    return [_joined(sources), _joined(destinations)]


def _joined(parts: list[tuple[Tensor, int]]) -> Tensor:
    narrow = all(_fits(ids, offset) for ids, offset in parts)
    out = torch.empty(sum(ids.numel() for ids, _ in parts), dtype=torch.int32 if narrow else torch.int64, device="cpu")
    start = 0
    for ids, offset in parts:
        out[start : start + ids.numel()].copy_(ids).add_(offset)
        start += ids.numel()
    return out


def _fits(ids: Tensor, offset: int) -> bool:
    """Return whether ids that begin at an offset are int32, which wrong ones need not be."""
    if not ids.numel():
        return True
    low, high = (int(one) for one in torch.aminmax(ids))
    return low >= 0 and high + offset <= _LARGEST
