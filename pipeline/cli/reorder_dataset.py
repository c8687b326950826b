"""What the command `reorder` does: a data set whose nodes are in another order, type by type."""

from __future__ import annotations

import argparse

from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.cli.parser import answer
from headrace.pipeline.convert.report import removed_text
from headrace.pipeline.data import TypeOffsets, node_types_of, whole_number
from headrace.pipeline.data.new_folder import check_is_free
from headrace.pipeline.data.ranking import ranking
from headrace.pipeline.partition.limits import MOST_PARTS
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.scores import out_degree, reverse_pagerank
from headrace.pipeline.storage.dataset.contents import contents_of_dataset, parts_inside
from headrace.pipeline.storage.dataset.dataset import Dataset
from headrace.pipeline.storage.dataset.open_dataset import open_dataset
from headrace.pipeline.storage.dataset.reordered import reordered
from headrace.pipeline.storage.dataset.write_dataset import save_dataset

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
    graph, store, items, ids = reordered(data.graph, data.store, data.items, data.ids, order)
    save_dataset(
        options.out,
        graph,
        store,
        items=items,
        ids=ids,
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
