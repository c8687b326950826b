"""From a list of edges to a graph, in little memory beyond both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import GraphError
from headrace.ops.features.gather import gather_rows
from headrace.ops.graphs.csc import coo_to_csc
from headrace.pipeline.data.arrays import as_ids, describe, whole_number
from headrace.pipeline.data.graph_view import as_attributes
from headrace.pipeline.data.type_offsets import TypeCounts, TypeOffsets, as_type_offsets, check_edge_ends

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
        raise GraphError(
            f"Graph.from_coo: expected ids of sources and of destinations, got {came} as src"
            f"{' and no dst' if dst is None else ''}; of an edge_index pass both rows: "
            "from_coo(edge_index[0], edge_index[1], num_nodes=...)"
        )
    src, dst = as_ids(src, "src", GraphError), as_ids(dst, "dst", GraphError)
    if src.shape != dst.shape:
        raise GraphError(
            f"Graph.from_coo: expected src and dst of equal length, got {src.numel()} and {dst.numel()} ids"
        )
    if num_nodes is None and node_types is not None:
        types = node_types if isinstance(node_types, TypeOffsets) else TypeOffsets.from_counts(node_types)
        num_nodes = types.num_ids
    elif num_nodes is None:
        num_nodes = 1 + max((int(ids.max()) for ids in (src, dst) if ids.numel()), default=-1)
    number = whole_number(num_nodes, "Graph.from_coo: num_nodes", 0, GraphError)
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


def check_has_nodes(num_nodes: int) -> None:
    """Refuse a graph without nodes."""
    if num_nodes < 1:
        raise GraphError(
            f"Graph.from_coo: expected at least one node, got num_nodes={num_nodes}; "
            "a graph may have no edges, but not no nodes: pass num_nodes= when there are no edges"
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
