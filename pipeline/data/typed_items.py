"""Items by type: ids that count within a node type, or pairs that count within the two of an edge type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import GraphError, ItemsError
from headrace.pipeline.data.type_offsets import TypeName, TypeOffsets
from headrace.pipeline.data.typed_ids import type_number

#: Types of items that follow each other, each with the number of its items.
TypeRuns = tuple[tuple[TypeName, int], ...]


def joined(by_type: Mapping[Any, tuple[Tensor, int | None]]) -> tuple[Tensor, TypeRuns]:
    """Put the ids of all types behind one another.

    Parameters
    ----------
    by_type
        Of each type its ids [n] or pairs [n, 2], and the length of the mask that they came as.

    Raises
    ------
    ItemsError
        If ids and pairs are mixed, or a name is no name of a type.
    """
    for name in by_type:
        is_triple = isinstance(name, tuple) and len(name) == 3
        if not (isinstance(name, str) or is_triple):
            raise ItemsError(f"ItemSampler: expected node types or edge types as keys of items, got {name!r}")
    dimensions = {ids.dim() for ids, _ in by_type.values()}
    if len(dimensions) > 1:
        raise ItemsError("ItemSampler: expected items of all types to be ids, or all to be pairs, got both")
    if any(ids.dim() == 2 and ids.shape[1] != 2 for ids, _ in by_type.values()):
        raise ItemsError("ItemSampler: expected pairs [num_pairs, 2] by edge type, got items of more nodes")
    runs = tuple((name, len(ids)) for name, (ids, _) in by_type.items())
    return torch.cat([ids.to(torch.int64) for ids, _ in by_type.values()]), runs


def in_space(ids: Tensor, runs: TypeRuns, node_types: TypeOffsets, edge_types: TypeOffsets) -> Tensor:
    """Return items as ids of the whole id space: [num_items], or [num_items, 2] for pairs.

    Raises
    ------
    ItemsError
        If there is no such type, it has no such node, or ids are named by an edge type or pairs by a node type.
    """
    made = []
    start = 0
    for name, count in runs:
        part = ids[start : start + count]
        start += count
        try:
            ends = _ends(name, part.dim() == 2, edge_types)
            columns = part.reshape(count, -1).unbind(1)
            flat = [node_types.global_ids(end, column) for end, column in zip(ends, columns, strict=True)]
        except GraphError as error:
            raise ItemsError(f"ItemSampler: items of type {name!r}: {error}") from error
        made.append(torch.stack(flat, 1) if part.dim() == 2 else flat[0])
    return torch.cat(made)


def _ends(name: TypeName, pairs: bool, edge_types: TypeOffsets) -> tuple[TypeName, ...]:
    """Return the node types of the columns of items."""
    if not pairs:
        return (name,)
    full = edge_types.names[type_number(edge_types, name)]
    if not isinstance(full, tuple):
        raise GraphError("pairs need an edge type (source type, relation, destination type)")
    return full[0], full[2]
