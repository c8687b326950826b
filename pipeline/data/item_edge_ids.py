"""Which edges of a graph items are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops.errors import GraphError, ItemsError
from headrace.pipeline.data.arrays import as_ids
from headrace.pipeline.data.typed_items import TypeRuns, joined_rows
from headrace.pipeline.data.types import type_number

if TYPE_CHECKING:
    from headrace.pipeline.data.items import ItemSet
    from headrace.pipeline.data.types import TypeOffsets


def as_edge_ids(given: Any, items: ItemSet) -> Tensor:
    """Return the ids of the edges that items are, int64[num_items], those of items of types behind one another.

    Raises
    ------
    ItemsError
        If items are no pairs, ids are no integers of at least 0, or not one for each item.
    """

    def checked(ids: Any) -> Tensor:
        found = as_ids(ids, "ItemSampler: edge_ids", ItemsError).to(torch.int64).contiguous()
        if found.numel() and int(found.min()) < 0:
            raise ItemsError(f"ItemSampler: expected edge_ids of at least 0, got {int(found.min())}")
        return found

    if items.nodes_per_item != 2:
        raise ItemsError(
            f"ItemSampler: expected pairs beside edge_ids, got {items}; give the ends of each edge, [num_items, 2]"
        )
    if items.types is not None and isinstance(given, Mapping):
        return joined_rows(given, items.types, "edge_ids", checked)
    if isinstance(given, Mapping):
        raise ItemsError("ItemSampler: expected one edge_ids for all items, got some by type; give items by type, too")
    ids = checked(given)
    if len(ids) != len(items):
        raise ItemsError(f"ItemSampler: expected edge_ids for {len(items)} items, got {len(ids)}")
    return ids


def edge_ids_in_space(ids: Tensor, runs: TypeRuns, edge_types: TypeOffsets) -> Tensor:
    """Return ids that count within the types of items as those of the whole graph.

    Raises
    ------
    ItemsError
        If a type is not there, or has no such edge.
    """
    try:
        made, start = [], 0
        for name, count in runs:
            full = edge_types.names[type_number(edge_types, name)]
            made.append(edge_types.global_ids(full, ids[start : start + count]))
            start += count
    except GraphError as error:
        raise ItemsError(f"ItemSampler: edge_ids of type {name!r}: {error}") from error
    return torch.cat(made)
