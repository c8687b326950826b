"""Tables of nodes that are numbered by their rows although a column seems to have their ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from headrace.ops import InputError
from headrace.pipeline.convert.description import NodeTable
from headrace.pipeline.convert.report import columns_of_owner
from headrace.pipeline.convert.table import Table

#: Names that columns of ids have, in any case, beside that of the type with "_id".
_NAMES = ("id", "node_id", "nid")

#: Rows that are compared at a time, and all that a dry run compares.
_AT_A_TIME = 1 << 16


def unused_id(node: NodeTable) -> str | None:
    """Return the column that by its name has the ids of nodes and that nothing is made of; None without one."""
    if node.table is None or node.id is not None:
        return None
    names, used = (*_NAMES, f"{node.type}_id".lower()), set(columns_of_owner(node))
    of_one_value = [name for name, column in node.table.columns.items() if not column.shape and name not in used]
    return next((name for name in of_one_value if name.lower() in names), None)


def has_row_numbers(table: Table, column: str, most: int | None = None) -> bool:
    """Whether the values of a column are 0, 1, 2, ..., as those of its rows are; of `most` rows, if given."""
    start = 0
    try:
        for chunk in table.chunks([column], _AT_A_TIME):
            values, rows = chunk[column], np.arange(start, start + len(chunk[column]))
            if np.ma.getmaskarray(values).any() or not np.array_equal(np.ma.getdata(values), rows):
                return False
            start += len(rows)
            if most is not None and start >= most:
                break
    except InputError:  # of a column that is not used, as of integers that are texts further down
        return False
    return True


def warnings_of_first_rows(nodes: Iterable[NodeTable]) -> Iterator[str]:
    """Yield the warnings that the first rows of tables of nodes give."""
    for node in nodes:
        column = unused_id(node)
        if column is not None and node.table is not None and not has_row_numbers(node.table, column, _AT_A_TIME):
            yield warning_of(node, column)


def warning_of(node: NodeTable, column: str) -> str:
    """Return the warning for a column that has other values than the numbers of rows."""
    assert node.table is not None
    return (
        f"{node.table.name}: nodes of type {node.type!r} are numbered 0, 1, 2, ... by their rows, but the column "
        f"{column!r}, which is not used, has other values; if these are the ids of nodes, {pass_id(column)}"
    )


def advice_of(node: NodeTable) -> str:
    """Return how unknown ids may come from ids that were not given; empty where no column may have them."""
    if node.table is None or node.id is not None or set(node.table.columns) <= set(columns_of_owner(node)):
        return ""
    column = unused_id(node) or "COLUMN"
    return f"nodes are numbered 0, 1, 2, ... by the rows of {node.table.name}: {pass_id(column)} for ids in a column, "


def pass_id(column: str) -> str:
    """Return how a column of ids is given."""
    return f'pass --id {column} (in TOML: id = "{column}")'
