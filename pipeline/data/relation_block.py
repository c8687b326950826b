"""The edges of one type of a block, in local ids of the two node types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.gpu import device_of
from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.data.by_type import ByType
from headrace.pipeline.data.types import TypedIds, TypeName, type_number

if TYPE_CHECKING:
    from headrace.pipeline.data.block import Block


@dataclass(frozen=True)
class RelationEdges:
    """Edges of a type.

    Parameters
    ----------
    indptr: int64[num_dst + 1]
        By destination, of those of the type that edges end in.
    indices: int64[num_edges]
        Numbers of sources among those of their type.
    places: int64[num_edges]
        Where the edges are in the block.
    num_src, num_dst
        Sources, and destinations, of the two node types.
    """

    indptr: Tensor
    indices: Tensor
    places: Tensor
    num_src: int
    num_dst: int


def edge_types_of(block: Block, types: TypedIds) -> Tensor:
    """Return the number of each edge's type, int64[num_edges].

    Raises
    ------
    InputError
        If the block has no edge ids, by which types are known.
    """
    if block.edge_ids is None:
        raise InputError("Block: expected edge ids, by which types are known, got a block without them")
    return types.edge_types.numbers_of(block.edge_ids)


def edges_by_type(block: Block, types: TypedIds) -> ByType:
    """Return the places of edges, those of the first type first; a block keeps them.

    Raises
    ------
    InputError
        As `edge_types_of`.
    """
    kept: dict[str, ByType] = vars(block)
    if "edges_by_type" not in kept:
        kept["edges_by_type"] = ByType(block.edge_types, types.edge_types.num_types)
    return kept["edges_by_type"]


def places_of_type(block: Block, number: int, types: TypedIds) -> Tensor:
    """Return where the edges of a type are in a block, int64[n], ascending; a GPU is waited for once for all types."""
    if device_of(block.edge_types) is None:
        return (block.edge_types == number).nonzero().squeeze(1)
    return edges_by_type(block, types).places(number)


def edges_of_relation(block: Block, name: TypeName, types: TypedIds) -> RelationEdges:
    """Take the edges of a type out of a block.

    Raises
    ------
    InputError
        If there is no such type, or it does not say between which node types it leads.
    """
    number = type_number(types.edge_types, name)
    name = types.edge_types.names[number]
    if not isinstance(name, tuple):
        raise InputError(
            f"Block.relation: expected an edge type (source type, relation, destination type), got {name!r}; name the "
            "edge types of the graph so"
        )
    source, _, destination = name
    places = block.relation_places(name)
    # Destinations come first among the sources: they have the same numbers in either list.
    num_dst = int((types.types[: block.num_dst] == type_number(types.node_types, destination)).sum())
    sources, rows = (ends[places] for ends in block.edge_index)
    indptr = starts_of(torch.bincount(types.numbers[rows], minlength=num_dst))
    return RelationEdges(indptr, types.numbers[sources], places, types.count(source), num_dst)
