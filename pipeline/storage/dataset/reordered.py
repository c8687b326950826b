"""A graph with what belongs to it in another order of its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headrace.pipeline.data import Graph, Items, TypeName, node_types_of
from headrace.pipeline.storage.dataset.id_map import IdMap
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.reordering import ReorderedRows


class Ordered(NamedTuple):
    """A graph, its features and items by the new ids of nodes, and by node type the users' ids, or the old ones."""

    graph: Graph
    store: FeatureStore
    items: dict[str, Items]
    ids: dict[str, IdMap]


def reordered(
    graph: Graph, store: FeatureStore, items: Mapping[str, Items], ids: Mapping[str, IdMap], order: Tensor
) -> Ordered:
    """Return a graph and what belongs to it in another order of its nodes; edges keep their ids.

    Nodes without ids of the user get their former numbers as such.

    Parameters
    ----------
    graph, store, items, ids
        As of a data set; node types without ids may be missing.
    order: int64[num_nodes]
        The old id of each node; nodes of a type stay together.
    """
    types = node_types_of(graph)
    within = {name: order[own.start : own.stop] - own.start for name in types.names for own in [types.id_range(name)]}
    ranks = {name: own.argsort() for name, own in within.items()}
    moved = replace(graph, node_types=None).reordered(order)
    node = {
        key: ReorderedRows(store.node.in_contract(key), order if isinstance(key, str) else within[key[0]])
        for key in store.node
    }
    return Ordered(
        replace(moved, node_types=graph.node_types),
        FeatureStore(node, dict(store.edge)),
        {name: _items(one, ranks, order.argsort()) for name, one in items.items()},
        {str(name): IdMap.of(_external(ids, name, own), str(name)) for name, own in within.items()},
    )


def _external(ids: Mapping[str, IdMap], name: TypeName, nodes: Tensor) -> Tensor | list[str]:
    return ids[name].external(nodes) if isinstance(name, str) and name in ids else nodes


def _items(items: Items, ranks: Mapping[TypeName, Tensor], rank: Tensor) -> Items:
    """Return items by their new ids: within their type by `ranks`, or those of all nodes by `rank`."""
    if not isinstance(items.ids, Mapping):
        return replace(items, ids=rank[items.ids.long()])
    return replace(items, ids={name: _of_type(name, ids.long(), ranks) for name, ids in items.ids.items()})


def _of_type(name: Any, ids: Tensor, ranks: Mapping[TypeName, Tensor]) -> Tensor:
    if ids.ndim == 1:
        return ranks[name][ids]
    ends = (name[0], name[2])
    return torch.stack([ranks[end][ids[:, place]] for place, end in enumerate(ends)], dim=1)
