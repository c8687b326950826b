"""What the command `reorder` does: a data set whose nodes are in another order, type by type."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.cli.parser import answer
from headrace.pipeline.convert.report import removed_text
from headrace.pipeline.data import Items, TypeName, TypeOffsets, node_types_of, whole_number
from headrace.pipeline.data.new_folder import check_is_free
from headrace.pipeline.data.ranking import ranking
from headrace.pipeline.partition.limits import MOST_PARTS
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.scores import out_degree, reverse_pagerank
from headrace.pipeline.storage.dataset.manifest import contents_of_dataset, parts_inside
from headrace.pipeline.storage.dataset.open_dataset import Dataset, open_dataset
from headrace.pipeline.storage.dataset.write_dataset import save_dataset
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.reordering import ReorderedRows

#: Parts whose nodes stay together, unless others are asked for.
NUM_PARTS = 16


def reorder(options: argparse.Namespace) -> None:
    """Write the data set in another order: graph, features, items and ids of nodes; edges keep their ids.

    Nodes without ids of the user get their former numbers as such.

    Raises
    ------
    HeadraceError
        If the folder holds no data set, or OUT exists and may not be replaced.
    OSError
        If it cannot be written.
    """
    if options.parts is not None and options.by != "partition":
        raise InputError(f"--parts: expected --by partition, which divides nodes into them, got --by {options.by}")
    if options.parts is not None:
        whole_number(options.parts, "--parts", 1, InputError, MOST_PARTS)
    check_is_free(options.out, overwrite=options.overwrite, contents=contents_of_dataset, what="a data set")
    removed = parts_inside(options.out)
    data = open_dataset(options.folder)
    if data.graph.node_ids is not None:
        raise InputError(f"reorder: {data.path} has an order already, by its node_ids; reorder what it was made of")
    types = node_types_of(data.graph)
    order = _order(data, types, options)
    within = {name: order[ids.start : ids.stop] - ids.start for name in types.names for ids in [types.id_range(name)]}
    graph = data.graph
    moved = replace(graph, node_types=None).reordered(order)
    store = FeatureStore(
        {
            key: ReorderedRows(data.store.node.in_contract(key), order if isinstance(key, str) else within[key[0]])
            for key in data.store.node
        },
        dict(data.store.edge),
    )
    ranks = {name: own.argsort() for name, own in within.items()}
    save_dataset(
        options.out,
        replace(moved, node_types=graph.node_types),
        store,
        items={name: _items(items, ranks, order.argsort()) for name, items in data.items.items()},
        ids={str(name): _external(data, name, own) for name, own in within.items()},
        notes={**data.notes, "order": {"by": options.by, "of": data.path.name}},
        overwrite=options.overwrite,
    )
    lines = [f"{options.out}: nodes by {options.by}; ids of nodes are kept: headrace.open_dataset(...).ids"]
    if removed:
        lines.insert(0, removed_text(removed))
    fields = {"folder": str(options.out), "by": options.by, "num_nodes": graph.num_nodes, "num_edges": graph.num_edges}
    answer({**fields, "removed": list(removed)}, "\n".join(lines), as_json=options.json)


def _order(data: Dataset, types: TypeOffsets, options: argparse.Namespace) -> Tensor:
    """Return the nodes in their new order; those of each type stay together."""
    if options.by == "partition":
        order = Partition.stream(data.graph, options.parts or NUM_PARTS, passes=3).order()
    else:
        order = ranking(out_degree(data.graph) if options.by == "out-degree" else reverse_pagerank(data.graph))
    numbers = types.numbers_of(order)
    return order[numbers.argsort(stable=True)]


def _external(data: Dataset, name: TypeName, ids: Tensor) -> Tensor | list[str]:
    return data.ids[name].external(ids) if isinstance(name, str) and name in data.ids else ids


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
