"""A table of edges: the numbers of the nodes at both ends, attributes, and which rows stay, in a table of DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.ops import InputError
from headrace.pipeline.convert.attributes import Attribute
from headrace.pipeline.convert.checked import attributes_of
from headrace.pipeline.convert.database import INCOMING, Database, drop, literal, sql_type
from headrace.pipeline.convert.description import NULL_TIMES, EdgeTable, Options, names_of_split
from headrace.pipeline.convert.fed_rows import feed_rows
from headrace.pipeline.convert.ids import Advance, NodeIds
from headrace.pipeline.convert.relations import number_of_relation
from headrace.pipeline.convert.table import Table
from headrace.pipeline.convert.work_folder import Facts
from headrace.pipeline.data.type_attributes import value_without

#: The share of DuckDB's memory that tables of keys may take for two joins in one query.
_SHARE_OF_JOINS = 0.4


@dataclass(frozen=True, eq=False)
class Ends:
    """The edges of one table that stay, as a table of DuckDB.

    Its columns are ``row`` in the table of the user, ``edge``, which counts the edges that stay in the order of rows,
    ``src`` and ``dst``, numbers of nodes within their types, and ``a0``, ``a1``, ..., the attributes of `columns`.

    Parameters
    ----------
    name
        Of the table.
    columns
        By attribute, its column.
    num_rows, num_edges
        Of the table of the user, of all relations, and those that stay.
    pairs
        The table of the edges that items are made of: also of those that are held out of the graph.
    """

    name: str
    columns: Mapping[str, str]
    num_rows: int
    num_edges: int
    pairs: str


def columns_of_attributes(edge: EdgeTable) -> dict[str, str]:
    """Return by attribute of a table of edges the column that it has in `Ends`."""
    return {name: f"a{place}" for place, name in enumerate(attributes_of(edge))}


def read_rows(
    base: Database,
    name: str,
    edge: EdgeTable,
    ids: tuple[NodeIds, NodeIds],
    options: Options,
    room: int,
    advance: Advance,
) -> Facts:
    """Read a table of edges once, and make the table `name` of all its rows, where ids without a node are null.

    Returns
    -------
    Facts
        ``num_rows``.
    """
    (src, join_src), (dst, join_dst) = number_of("s", ids[0]), number_of("d", ids[1])
    columns_of = columns_of_attributes(edge)
    fed = {columns_of[one]: column for one, column in attributes_of(edge).items()}
    others = {one: f"i.{one}" for one in fed}
    if options.held_out == "drop" and edge.split is not None and edge.table.is_empty(edge.split):
        others["is_held_out"] = "false"
    elif options.held_out == "drop" and edge.split is not None:
        fed["split"] = edge.split
        names = ", ".join(f"'{one}'" for one in (*names_of_split("val"), *names_of_split("test")))
        others["is_held_out"] = f"coalesce(lower(i.split) IN ({names}), false)"
    order = ""
    if edge.relation is not None:
        fed["relation"] = edge.relation
        others["relation"] = "i.relation"
        # Rows of one relation side by side are found without a look at the others.
        order = "ORDER BY i.relation, i.row"
    values = [f"{value} AS {one}" for one, value in others.items()]
    # DuckDB cannot spill two joins of one query: with many keys the ends are joined one after the other.
    is_large = sum(_join_bytes(base, one) for one in ids) > base.limit * _SHARE_OF_JOINS
    with feed_rows(base, edge.table, {"s": edge.src, "d": edge.dst, **fed}, room, advance, keys=("s", "d")):
        if is_large:
            columns = ", ".join(["i.row", f"{src} AS src", "i.d", *values])
            base.execute(f"CREATE OR REPLACE TABLE half_read AS SELECT {columns} FROM {INCOMING} i {join_src}")
        else:
            columns = ", ".join(["i.row", f"{src} AS src", f"{dst} AS dst", *values])
            joins = f"{join_src} {join_dst} {order}"
            base.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT {columns} FROM {INCOMING} i {joins}")
    if is_large:
        columns = ", ".join(["i.row", "i.src", f"{dst} AS dst", *others])
        base.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT {columns} FROM half_read i {join_dst} {order}")
        base.execute("DROP TABLE half_read")
    return {"num_rows": base.value(f"SELECT count(*) FROM {name}")}


def num_shared(base: Database, rows: str, num_nodes: int) -> int:
    """Return how many nodes are a source in some row and a destination in another one."""
    is_end = np.zeros((2, num_nodes), bool)
    for batch in base.batches(f"SELECT src, dst FROM {rows}"):
        for side, ids in zip(is_end, batch.columns, strict=True):
            side[ids.drop_null().to_numpy(zero_copy_only=False)] = True
    return int((is_end[0] & is_end[1]).sum())


def take_ends(
    base: Database,
    name: str,
    rows: str,
    edge: EdgeTable,
    ids: tuple[NodeIds, NodeIds],
    attributes: Mapping[str, Attribute],
    options: Options,
    *,
    same_type: bool,
) -> Facts:
    """Make the table `name` of what stays of the rows that `read_rows` has made, of one relation where it has several.

    Returns
    -------
    Facts
        ``num_rows`` and ``num_edges`` that stay, the largest numbers ``src`` and ``dst`` of all rows,
        counts of rows that were left out or have no time, and whether the table is one view of `rows` or more.

    Raises
    ------
    InputError
        If an id is unknown, a value null, and that is not allowed; with its file and row.
    """
    of_edge, columns = attributes_of(edge), columns_of_attributes(edge)
    is_part = edge.relation is not None
    if is_part:
        rows = f"(SELECT * FROM {rows} WHERE relation = {number_of_relation(edge)})"
    for side, column, of_side in zip(("src", "dst"), (edge.src, edge.dst), ids, strict=True):
        if of_side.keys is None and of_side.num_nodes is None:
            refuse_negative(base, rows, edge.table, side, column)
    if options.unknown_ids != "drop":
        _refuse_unknown(base, rows, edge, ids)
    known = "src IS NOT NULL AND dst IS NOT NULL"
    loop = "src = dst" if options.loops == "drop" and same_type else "false"
    remain = f"({known} AND NOT ({loop}))"
    null = {
        one: is_null(edge.table, column, columns[one], nan=attributes[one].is_time) for one, column in of_edge.items()
    }
    for one, column in of_edge.items():
        _check_values(base, rows, edge.table, one, column, columns[one], null[one], remain, attributes[one], options)
    untimed = " OR ".join(null[one] for one in of_edge if attributes[one].is_time) or "false"
    is_item = f"{remain} AND NOT ({untimed})" if options.null_times == "drop" else remain
    holds_out = options.held_out == "drop" and edge.split is not None
    stays = f"{is_item} AND NOT is_held_out" if holds_out else is_item
    held = f"{is_item} AND is_held_out" if holds_out else "false"
    total, lost, loops, untimed_rows, held_out, kept, src, dst = base.row(
        f"SELECT count(*), {_count(f'NOT ({known})')}, {_count(f'{known} AND ({loop})')}, "
        f"{_count(f'{remain} AND ({untimed})')}, {_count(held)}, {_count(stays)}, "
        f"coalesce(max(src), -1), coalesce(max(dst), -1) FROM {rows}"
    )
    values = [f"{_filled(columns[one], null[one], attributes[one])} AS {columns[one]}" for one in of_edge]
    is_whole = kept == total and not is_part
    number = "row" if is_whole else "row_number() OVER (ORDER BY row) - 1"
    kind = "VIEW" if is_whole else "TABLE"
    drop(base, name)
    base.execute(
        f"CREATE {kind} {name} AS SELECT {', '.join(['row', f'{number} AS edge', 'src', 'dst', *values])} "
        f"FROM {rows} WHERE {stays}"
    )
    if holds_out:
        base.execute(f"CREATE OR REPLACE VIEW {name}_pairs AS SELECT row, src, dst FROM {rows} WHERE {is_item}")
    counts = {"unknown": lost, "loops": loops, "null times": untimed_rows, "held out": held_out}
    pairs = f"{name}_pairs" if holds_out else name
    return {
        "num_rows": total,
        "num_edges": kept,
        "src": src,
        "dst": dst,
        "counts": counts,
        "pairs": pairs,
        "needs_rows": is_whole or holds_out,
    }


def _join_bytes(base: Database, ids: NodeIds) -> int:
    """Return about the bytes that a join with the keys of a type takes."""
    if ids.keys is None:
        return 0
    length = f"(SELECT avg(strlen(key)) FROM {ids.keys})" if ids.is_text else "8"
    return int(base.value(f"SELECT coalesce(count(*) * (40 + {length}), 0)::BIGINT FROM {ids.keys}"))


def _count(condition: str) -> str:
    return f"count(*) FILTER (WHERE {condition})"


def number_of(column: str, ids: NodeIds) -> tuple[str, str]:
    """Return in SQL the number of the node whose id is in a column that is fed, or null, and the join for it."""
    if ids.keys is not None:
        return f"k{column}.node", f"LEFT JOIN {ids.keys} k{column} ON k{column}.key = i.{column}"
    if ids.num_nodes is None:
        return f"i.{column}", ""
    return f"CASE WHEN i.{column} >= 0 AND i.{column} < {ids.num_nodes} THEN i.{column} END", ""


def refuse_unknown(table: Table, column: str, row: int, advice: str) -> None:
    """Refuse an id that no node has, with its value; `advice` is the beginning of what to do.

    Raises
    ------
    InputError
        Always.
    """
    value = value_at(table, column, row)
    drop = "pass unknown_ids='drop' (--unknown-ids drop: leave such rows out)"
    if value is None:
        raise InputError(
            f"convert: {table.where(row)}: there is no node with the id null of {column!r}; fill it in, or {drop}"
        )
    raise InputError(
        f"convert: {table.where(row)}: there is no node with the id {value!r} of {column!r}; {advice}add the node, or "
        f"{drop} or 'create' (--unknown-ids create: add nodes)"
    )


def value_at(table: Table, column: str, row: int) -> Any:
    """Return one value of a column; None for null."""
    start = 0
    for chunk in table.chunks([column], 1 << 16):
        values = chunk[column]
        if start + len(values) > row:
            value = values[row - start]
            return None if value is None or value is np.ma.masked else value if isinstance(value, str) else value.item()
        start += len(values)
    raise AssertionError(row)


def refuse_negative(base: Database, name: str, table: Table, side: str, column: str) -> None:
    """Refuse numbers of nodes below 0, with the first row.

    Raises
    ------
    InputError
        If there is one.
    """
    odd = base.row(f"SELECT row, {side} FROM {name} WHERE {side} < 0 ORDER BY row LIMIT 1")
    if odd is not None:
        raise negative_number(table, column, *odd)


def negative_number(table: Table, column: str, row: int, number: int) -> InputError:
    """Return the error for a number of a node below 0."""
    return InputError(
        f"convert: {table.where(row)}: expected a node number of at least 0 in {column!r}, got {number}; pass "
        "--external (in TOML: external = true) for ids that are keys"
    )


def _refuse_unknown(base: Database, name: str, edge: EdgeTable, ids: tuple[NodeIds, NodeIds]) -> None:
    odd = base.row(f"SELECT row, src IS NULL FROM {name} WHERE src IS NULL OR dst IS NULL ORDER BY row LIMIT 1")
    if odd is not None:
        side = 0 if odd[1] else 1
        refuse_unknown(edge.table, (edge.src, edge.dst)[side], odd[0], ids[side].advice)


def is_null(table: Table, column: str, name: str, *, nan: bool) -> str:
    """Return in SQL whether a column that was read under a name is null, or NaN if that counts as null too."""
    is_nan = nan and table.column(column).dtype.kind == "f"
    return f"({name} IS NULL OR isnan({name}))" if is_nan else f"{name} IS NULL"


def _check_values(
    base: Database,
    rows: str,
    table: Table,
    attribute: str,
    column: str,
    name: str,
    null: str,
    remain: str,
    kind: Attribute,
    options: Options,
) -> None:
    """Refuse nulls, and weights that nothing can be drawn by, in rows that stay."""
    if value_without(attribute) == 1 and table.column(column).dtype.kind in "if":
        is_finite = f"AND isfinite({name})" if table.column(column).dtype.kind == "f" else ""
        odd = f"SELECT row, {name} FROM {rows} WHERE {remain} AND {name} IS NOT NULL AND NOT ({name} >= 0 {is_finite})"
        found = base.row(f"{odd} ORDER BY row LIMIT 1")
        if found is not None:
            raise odd_weight(table, column, *found)
    if kind.is_time and options.null_times != "refuse":
        return
    row = base.value(f"SELECT min(row) FROM {rows} WHERE {remain} AND {null}")
    if row is not None:
        raise null_attribute(table, column, row, attribute, kind)


def odd_weight(table: Table, column: str, row: int, weight: float) -> InputError:
    """Return the error for a weight that nothing can be drawn by."""
    return InputError(
        f"convert: {table.where(row)}: expected a weight that is finite and not negative in {column!r}, got {weight}; "
        "correct it, or make the column an attribute or feature of another name"
    )


def null_attribute(table: Table, column: str, row: int, attribute: str, kind: Attribute) -> InputError:
    """Return the error for a null among attributes."""
    filling = "fill it in, remove the row, or make the column labels of edges, which may be missing"
    return InputError(
        f"convert: {table.where(row)}: expected a number in {column!r} for attribute {attribute!r}, got null; "
        f"{NULL_TIMES if kind.is_time else filling}"
    )


def _filled(name: str, null: str, attribute: Attribute) -> str:
    """Return in SQL an attribute of its dtype, with the earliest time where there is none."""
    value = f"CAST({name} AS {sql_type(attribute.dtype)})"
    if not attribute.is_time or attribute.fill is None:
        return value
    return f"CASE WHEN {null} THEN {literal(attribute.fill, attribute.dtype)} ELSE {value} END"
