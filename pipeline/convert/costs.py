"""What a conversion will take of memory and of the disk, told by tables whose rows were not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from headrace.pipeline.convert.attributes import Attribute
from headrace.pipeline.convert.checked import Checked
from headrace.pipeline.convert.database import LEAST_ROOM
from headrace.pipeline.convert.description import EdgeTable, NodeTable
from headrace.pipeline.convert.feature_rows import kind_of
from headrace.pipeline.convert.memory import APART, resident
from headrace.pipeline.convert.sorted_edges import index_dtype

#: Bytes that a text of an id is taken to have.
_TEXT_BYTES = 16


def features_of(owner: NodeTable | EdgeTable) -> Iterator[tuple[str, np.dtype[Any], tuple[int, ...]]]:
    """Yield names, dtypes and row shapes of the features and labels of a table."""
    for name, columns in {**owner.features, **owner.labels}.items():
        assert owner.table is not None  # it has features
        yield name, *kind_of([(owner.table, columns)], name)


def memory_needed() -> int:
    """Return the least ``--memory`` that suffices, once libraries are loaded: what does not fit is on the disk."""
    return resident() + APART + LEAST_ROOM


def disk_needed(
    tables: Checked, nodes: Mapping[str, int | None], num_edges: int | None, attributes: Mapping[str, Attribute]
) -> int | None:
    """Return about how many bytes a conversion has on the disk at its end: the data set, and tables between passes.

    What does not fit in memory while edges are sorted comes on top. None if a table does not tell how many rows it has.
    """
    if num_edges is None:
        return None
    num_nodes = sum(count or 0 for count in nodes.values())
    num_ids = _num_ids(tables, nodes, num_edges)
    of_attributes = sum(one.dtype.itemsize for one in attributes.values())
    found = num_ids * (index_dtype(num_nodes).itemsize + index_dtype(num_ids).itemsize + of_attributes) + 8 * num_nodes
    # Three numbers of 64 bits for each edge that is read, or made and kept apart, which DuckDB packs to about a half.
    made = num_ids if tables.options.undirected or tables.options.loops == "add" else num_edges
    found += made * (3 * 8 + of_attributes) // 2
    for name, count in nodes.items():
        if has_keys(tables, name):
            found += 2 * (count or 0) * (16 + _TEXT_BYTES)
    owners: list[NodeTable | EdgeTable] = [one for one in tables.nodes.values() if one.table is not None]
    owners += tables.edge_reads()
    for owner in owners:
        rows = None if owner.table is None else owner.table.about_rows()
        if rows is None:
            return None
        times = 2 if isinstance(owner, EdgeTable) and _is_doubled(tables, owner) else 1
        found += sum(times * rows * int(np.prod(shape)) * dtype.itemsize for _, dtype, shape in features_of(owner))
    return found


def _num_ids(tables: Checked, nodes: Mapping[str, int | None], num_edges: int) -> int:
    """Return how many edges are sorted, those that may be left out among them."""
    found = 2 * num_edges if tables.options.undirected or tables.options.reverse else num_edges
    for edge_type in tables.edges if tables.options.loops == "add" else ():
        src, dst = tables.ends(edge_type)
        found += (nodes[src] or 0) if src == dst else 0
    return found


def _is_doubled(tables: Checked, edge: EdgeTable) -> bool:
    src, dst = tables.ends(edge.type)
    return (tables.options.undirected and src == dst) or (tables.options.reverse and not tables.is_typed)


def has_keys(tables: Checked, name: str) -> bool:
    """Whether ids of nodes of a type are keys, and not the numbers of nodes."""
    node = tables.nodes[name]
    if node.table is not None:
        return node.id is not None
    return node.external or any(one.table.column(one.column).is_text for one in tables.references() if one.type == name)
