"""Items by type: ids that count within a node type, pairs within the two of an edge type, and which edges these are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import as_ids, describe, is_mask_of_integers, zeros_and_ones
from headrace.pipeline.data.types import TypeName, TypeOffsets, type_number

if TYPE_CHECKING:
    from headrace.pipeline.data.items import ItemSet


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
    InputError
        If ids and pairs are mixed, or a name is no name of a type.
    """
    for name in by_type:
        is_triple = isinstance(name, tuple) and len(name) == 3
        if not (isinstance(name, str) or is_triple):
            raise InputError(f"ItemSampler: expected node types or edge types as keys of items, got {name!r}")
    dimensions = {ids.dim() for ids, _ in by_type.values()}
    if len(dimensions) > 1:
        raise InputError("ItemSampler: expected items of all types to be ids, or all to be pairs, got both")
    for name, (ids, _) in by_type.items():
        if ids.dim() == 2 and ids.shape[1] != 2:
            advice = "pass its transpose, pairs.t()" if len(ids) == 2 else "give such items by ids over all types"
            raise InputError(
                f"ItemSampler: expected pairs [num_pairs, 2] by edge type, got {list(ids.shape)} of {name!r}; {advice}"
            )
    for name, (ids, _) in by_type.items():
        if isinstance(name, tuple) and ids.dim() == 1 and len(ids):
            raise InputError(
                f"ItemSampler: expected pairs [num_pairs, 2] of edge type {name}, got ids [{len(ids)}]; of sources and "
                "destinations make torch.stack((src, dst), 1), with labels {edge_type: (pairs, labels)}"
            )
    runs = tuple((name, len(ids)) for name, (ids, _) in by_type.items())
    return torch.cat([ids.to(torch.int64) for ids, _ in by_type.values()]), runs


def joined_rows(by_type: Mapping[Any, Any], runs: TypeRuns, what: str, convert: Callable[[Any], Tensor]) -> Tensor:
    """Put what items of all types have, such as labels, behind one another: [num_items, ...].

    Parameters
    ----------
    by_type
        Of each type a row for each of its items.
    runs
        The types of the items.
    what
        Its name in messages.
    convert
        Makes a tensor of what came.

    Raises
    ------
    InputError
        If the types are others than those of the items, or a type has another number of rows, or rows another shape.
    """
    names = [name for name, _ in runs]
    if set(names) != set(by_type):
        raise InputError(f"expected {what} to have the types of the items, {names}, got {list(by_type)}")
    parts = {name: convert(by_type[name]) for name in names}
    for name, count in runs:
        shape = list(parts[name].shape)
        if shape[:1] != [count]:
            raise InputError(
                f"expected {what} of type {name!r} to have one row per item ({count}), got shape {shape}; of items "
                f"that are a mask pass {what}[mask]"
            )
    # A type without items says nothing of the dtype: an empty list has that of floats.
    full = {name: part for name, part in parts.items() if len(part)} or parts
    if len({part.shape[1:] for part in full.values()}) > 1:
        shapes = {name: list(part.shape) for name, part in full.items()}
        raise InputError(f"expected rows of {what} to have one shape for all types, got {shapes}")
    return torch.cat(list(full.values()))


def in_space(
    ids: Tensor,
    runs: TypeRuns,
    node_types: TypeOffsets,
    edge_types: TypeOffsets,
    mask_sizes: tuple[int | None, ...] | None = None,
) -> Tensor:
    """Return items as ids of the whole id space: [num_items], or [num_items, 2] for pairs.

    Raises
    ------
    InputError
        If there is no such type, it has no such node, or ids are named by an edge type or pairs by a node type, or a
        type has another number of nodes than the mask that its ids came as, one of `mask_sizes`.
    """
    made = []
    start = 0
    for (name, count), mask_size in zip(runs, mask_sizes or (None,) * len(runs), strict=True):
        part = ids[start : start + count]
        start += count
        try:
            ends = _ends(name, part.dim() == 2, edge_types)
            if part.dim() == 1:
                _check_mask(part, mask_size, len(node_types.id_range(name)))
            columns = part.unbind(1) if part.dim() == 2 else (part,)
            flat = [node_types.global_ids(end, column) for end, column in zip(ends, columns, strict=True)]
        except InputError as error:
            raise InputError(f"ItemSampler: items of type {name!r}: {error}") from error
        made.append(torch.stack(flat, 1) if part.dim() == 2 else flat[0])
    return torch.cat(made)


def _ends(name: TypeName, pairs: bool, edge_types: TypeOffsets) -> tuple[TypeName, ...]:
    """Return the node types of the columns of items."""
    if not pairs:
        return (name,)
    full = edge_types.names[type_number(edge_types, name)]
    if not isinstance(full, tuple):
        raise InputError("pairs need an edge type (source type, relation, destination type)")
    return full[0], full[2]


def _check_mask(ids: Tensor, size: int | None, num_nodes: int) -> None:
    if size is not None and size != num_nodes:
        raise InputError(f"expected a mask for {num_nodes} nodes, got one of {size} entries")
    if size is None and is_mask_of_integers(ids, num_nodes):
        raise InputError(f"expected ids or a boolean mask, got {zeros_and_ones(num_nodes)}")


@dataclass(frozen=True, eq=False)
class LinkTypes:
    """Which edge type each pair of a batch is of: two nodes may be joined by several.

    Parameters
    ----------
    names
        The edge types of the items, (source type, relation, destination type) each; a batch may have none of one.
    numbers: int64[num_pairs]
        The place of each pair's type among them; a negative has the type of its pair.
    """

    names: tuple[TypeName, ...]
    numbers: Tensor

    def __repr__(self) -> str:
        return f"LinkTypes({list(self.names)}, {describe(self.numbers)})"

    def map(self, of_tensor: Callable[[Tensor], Tensor]) -> LinkTypes:
        """Return the same with a function applied to the numbers."""
        return LinkTypes(self.names, of_tensor(self.numbers))

    def with_negatives(self, owners: Tensor) -> LinkTypes:
        """Return them for the pairs and, behind these, negatives, of the pairs `owners`: int64[num_negatives]."""
        return LinkTypes(self.names, torch.cat([self.numbers, self.numbers[owners]]))


def as_edge_ids(given: Any, items: ItemSet) -> Tensor:
    """Return the ids of the edges that items are, int64[num_items], those of items of types behind one another.

    Raises
    ------
    InputError
        If items are no pairs, ids are no integers of at least 0, or not one for each item.
    """

    def checked(ids: Any) -> Tensor:
        found = as_ids(ids, "ItemSampler: edge_ids").to(torch.int64).contiguous()
        if found.numel() and int(found.min()) < 0:
            raise InputError(f"ItemSampler: expected edge_ids of at least 0, got {int(found.min())}")
        return found

    if items.nodes_per_item != 2:
        raise InputError(
            f"ItemSampler: expected pairs beside edge_ids, got {items}; give the ends of each edge, [num_items, 2]"
        )
    if items.types is not None and isinstance(given, Mapping):
        return joined_rows(given, items.types, "edge_ids", checked)
    if isinstance(given, Mapping):
        raise InputError("ItemSampler: expected one edge_ids for all items, got some by type; give items by type, too")
    ids = checked(given)
    if len(ids) != len(items):
        raise InputError(f"ItemSampler: expected edge_ids for {len(items)} items, got {len(ids)}")
    return ids


def edge_ids_in_space(ids: Tensor, runs: TypeRuns, edge_types: TypeOffsets) -> Tensor:
    """Return ids that count within the types of items as those of the whole graph.

    Raises
    ------
    InputError
        If a type is not there, or has no such edge.
    """
    try:
        made, start = [], 0
        for name, count in runs:
            full = edge_types.names[type_number(edge_types, name)]
            made.append(edge_types.global_ids(full, ids[start : start + count]))
            start += count
    except InputError as error:
        raise InputError(f"ItemSampler: edge_ids of type {name!r}: {error}") from error
    return torch.cat(made)
