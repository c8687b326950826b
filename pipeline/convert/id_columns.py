"""Whether the ids of a type are integers or texts: one answer for all columns that have ids of the type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from headrace.ops import InputError
from headrace.pipeline.convert.checked import Checked
from headrace.pipeline.convert.description import EdgeTable, Items, NodeTable
from headrace.pipeline.convert.formats.views import WithoutValues
from headrace.pipeline.convert.table import Table
from headrace.pipeline.convert.unused_ids import pass_id, unused_id

T = TypeVar("T", NodeTable, EdgeTable, Items)


def with_ids_alike(tables: Checked) -> Checked:
    """Return the tables with the ids of each type as integers or as texts in all columns.

    They are integers if they may be integers in all columns, and texts otherwise. Columns in files of text may be
    either, as long as each id is the decimal form of its integer, and so may columns without any id.

    Raises
    ------
    InputError
        If they must be texts in one column and integers in another.
    """
    kinds = {name: _kind_of(tables, name) for name in tables.nodes}
    done: dict[Any, Table] = {}
    nodes = {
        name: node if node.id is None else _with_ids(node, {node.id: kinds[name]}, done)
        for name, node in tables.nodes.items()
    }
    edges = {}
    for edge_type, some in tables.edges.items():
        src, dst = tables.ends(edge_type)
        edges[edge_type] = [_with_ids(one, {one.src: kinds[src], one.dst: kinds[dst]}, done) for one in some]
    items = []
    for one in tables.items:
        columns, types = tables.of_items(one)
        items.append(_with_ids(one, {name: kinds[of] for name, of in zip(columns, types, strict=False)}, done))
    return Checked(nodes, edges, items, tables.options, tables.tasks, tables.notes)


def _kind_of(tables: Checked, name: str) -> str:
    """Return the kind that ids of a type have in all columns."""
    columns = [
        (f"{one.table.name} {one.column}", _kinds_in(one.table, one.column))
        for one in tables.references()
        if one.type == name
    ]
    node = tables.nodes[name]
    if node.table is not None:
        kinds = frozenset(["integers"]) if node.id is None else _kinds_in(node.table, node.id)
        columns.append((f"{node.table.name} {node.id or '(row numbers)'}", kinds))
    for kind in ("integers", "texts"):
        if all(kind in kinds for _, kinds in columns):
            return kind
    texts, integers = (next(where for where, kinds in columns if kind not in kinds) for kind in ("integers", "texts"))
    has_rows = node.table is not None and node.id is None
    advice = pass_id(unused_id(node) or "COLUMN") if has_rows else "write them alike"
    raise InputError(
        f"convert: expected ids of {name!r} to be texts or integers everywhere, got texts in {texts} and integers in "
        f"{integers}; {advice}"
    )


def _kinds_in(table: Table, column: str) -> frozenset[str]:
    return frozenset(["integers", "texts"]) if table.is_empty(column) else table.id_kinds(column)


def _with_ids(one: T, kinds: Mapping[str, str], done: dict[Any, Table]) -> T:
    """Return an owner with its ids as they should be; `done` has the tables of others, as several may share one."""
    if one.table is None:
        return one
    key = (id(one.table), *kinds.items())
    if key not in done:
        table = one.table
        for column, kind in kinds.items():
            if table.is_empty(column):
                table = WithoutValues(table, {column: np.dtype(object if kind == "texts" else np.int64)})
            else:
                table = table.with_ids(column, kind)
        done[key] = table
    return replace(one, table=done[key])
