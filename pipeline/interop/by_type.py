"""Nodes and edges of all types together, as those of each type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.pipeline.data.type_offsets import TypeName
from headrace.pipeline.data.typed_ids import TypedIds, count_by_hop


class NodesOfType(NamedTuple):
    """The nodes of one type, in their order.

    Parameters
    ----------
    ids: int64[n]
        Their numbers within the type.
    slot: int64[n], optional
        The tree of each, where seeds grow trees of their own.
    by_hop
        How many each hop brought; empty where hops are not told apart.
    """

    ids: Tensor
    slot: Tensor | None
    by_hop: list[int]


class EdgesOfType(NamedTuple):
    """The edges of one type, in their order.

    Parameters
    ----------
    places: int64[n]
        Where they are among the edges of all types.
    edge_index: int64[2, n]
        Their ends, numbered among the nodes of their types.
    ids: int64[n]
        Their numbers within the type.
    by_hop
        How many each hop brought; empty where hops are not told apart.
    """

    places: Tensor
    edge_index: Tensor
    ids: Tensor
    by_hop: list[int]


def nodes_by_type(types: TypedIds, by_hop: Sequence[int] | None, slot: Tensor | None) -> dict[TypeName, NodesOfType]:
    """Return nodes type by type; all types have an entry.

    Parameters
    ----------
    types
        The nodes.
    by_hop
        How many each hop brought; None where hops are not told apart.
    slot: int64[num_nodes], optional
        The tree of each.
    """
    names = types.node_types.names
    counts = [[]] * len(names) if by_hop is None else count_by_hop(types.types, len(names), by_hop)
    return {
        name: NodesOfType(types.within(name), None if slot is None else slot[types.places(name)], of_hops)
        for name, of_hops in zip(names, counts, strict=True)
    }


def edges_by_type(
    types: TypedIds, edge_index: Tensor, edge_ids: Tensor, by_hop: Sequence[int] | None
) -> dict[TypeName, EdgesOfType]:
    """Return edges type by type; all types have an entry.

    Parameters
    ----------
    types
        The nodes that the ends are.
    edge_index: int64[2, num_edges]
        The ends, numbered among the nodes of all types.
    edge_ids: int64[num_edges]
        The edges, by which their types are known.
    by_hop
        How many each hop brought; None where hops are not told apart.
    """
    names = types.edge_types.names
    number = types.edge_types.numbers_of(edge_ids)
    order = number.to(torch.int16).argsort(stable=True)
    sizes = torch.bincount(number, minlength=len(names)).tolist()
    ends = torch.split(types.numbers[edge_index[:, order]], sizes, dim=1)
    within = edge_ids[order] - types.edge_types.offsets.to(edge_ids.device)[number[order]]
    counts = [[]] * len(names) if by_hop is None else count_by_hop(number, len(names), by_hop)
    each = zip(names, torch.split(order, sizes), ends, torch.split(within, sizes), counts, strict=True)
    return {name: EdgesOfType(places, both.contiguous(), ids, of_hops) for name, places, both, ids, of_hops in each}
