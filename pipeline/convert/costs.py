"""What a conversion will take of memory and of the disk, told by tables whose rows were not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from headrace.pipeline.convert.attributes import Attribute
from headrace.pipeline.convert.checked import Checked
from headrace.pipeline.convert.description import EdgeTable, NodeTable
from headrace.pipeline.convert.duck_database import LEAST_ROOM
from headrace.pipeline.convert.feature_rows import kind_of
from headrace.pipeline.convert.integer_keys import KEY_BYTES
from headrace.pipeline.convert.memory import APART, resident
from headrace.pipeline.convert.sort_edges import index_dtype

#: Bytes of arrays that any conversion has room for.
_LEAST = 32 << 20

#: Bytes that a text of an id is taken to have.
_TEXT_BYTES = 16


def features_of(owner: NodeTable | EdgeTable) -> Iterator[tuple[str, np.dtype[Any], tuple[int, ...]]]:
    """Yield names, dtypes and row shapes of the features and labels of a table."""
    for name, columns in {**owner.features, **owner.labels}.items():
        assert owner.table is not None  # it has features
        yield name, *kind_of([(owner.table, columns)], name)


def memory_needed(tables: Checked, nodes: Mapping[str, int | None], num_edges: int | None) -> int:
    """Return the least ``--memory`` that suffices, once libraries are loaded.

    Parameters
    ----------
    nodes
        How many there are of a type, about; what is not known counts as none.
    num_edges
        How many edges tables have, about.
    """
    least = _LEAST
    for name, count in nodes.items():
        if _has_texts(tables, name):
            least = max(least, LEAST_ROOM)
        elif _has_keys(tables, name):
            least = max(least, KEY_BYTES * (count or 0))
    options = tables.options
    if options.undirected or options.duplicate_edges == "drop" or options.loops == "add":
        least = max(least, _num_ids(tables, nodes, num_edges or 0) // 4)
    return resident() + APART + least


def disk_needed(
    tables: Checked, nodes: Mapping[str, int | None], num_edges: int | None, attributes: Mapping[str, Attribute]
) -> int | None:
    """Return the bytes on the disk when a conversion has most there: at its end, with files between passes.

    None if a table does not tell how many rows it has.
    """
    if num_edges is None:
        return None
    num_nodes = sum(count or 0 for count in nodes.values())
    num_ids = _num_ids(tables, nodes, num_edges)
    of_node, of_edge = index_dtype(num_nodes).itemsize, index_dtype(num_ids).itemsize
    of_attributes = sum(one.dtype.itemsize for one in attributes.values())
    # Ends as they were read; then the sorted arrays twice, as those of the data set.
    found = num_edges * (2 * of_node + of_attributes) + 2 * num_ids * (of_node + of_edge + of_attributes)
    found += 2 * 8 * num_nodes
    in_parts = 0  # texts before they are numbered
    for reference in tables.references():
        rows = reference.table.about_rows()
        if reference.table.column(reference.column).is_text:
            found += 8 * (rows or 0)
            in_parts += (8 + 4 + _TEXT_BYTES) * (rows or 0)
    for name, count in nodes.items():
        if _has_texts(tables, name):
            found += 2 * (count or 0) * (16 + _TEXT_BYTES)
        elif _has_keys(tables, name):
            found += 2 * (count or 0) * 16
    owners: list[NodeTable | EdgeTable] = [one for one in tables.nodes.values() if one.table is not None]
    owners += [edge for _, edge in tables.edge_tables()]
    for owner in owners:
        rows = None if owner.table is None else owner.table.about_rows()
        if rows is None:
            return None
        times = 2 if isinstance(owner, EdgeTable) and _is_doubled(tables, owner) else 1
        found += sum(times * rows * int(np.prod(shape)) * dtype.itemsize for _, dtype, shape in features_of(owner))
    return max(found, in_parts)


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


def _has_texts(tables: Checked, name: str) -> bool:
    node = tables.nodes[name]
    if node.table is not None:
        return node.id is not None and node.table.column(node.id).is_text
    return any(one.table.column(one.column).is_text for one in tables.references() if one.type == name)


def _has_keys(tables: Checked, name: str) -> bool:
    node = tables.nodes[name]
    return node.external or (node.table is not None and node.id is not None)
