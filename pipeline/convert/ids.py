"""The nodes of each type: their numbers, and the users' own ids, in tables of DuckDB.

Ids of a type are numbers of nodes, or keys, which are integers or texts. Keys are in a table ``(key, node)``: first
those of the table of nodes in its order, then those that edges and items alone have, in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.ops import InputError
from headrace.pipeline.convert.checked import Reference
from headrace.pipeline.convert.database import INCOMING, Database
from headrace.pipeline.convert.description import NodeTable, Options
from headrace.pipeline.convert.fed_rows import feed_keys, feed_rows
from headrace.pipeline.convert.table import Table
from headrace.pipeline.convert.work_folder import Facts

#: What a pass over a table tells of its progress.
Advance = Callable[[int], Any]


@dataclass(frozen=True, eq=False)
class NodeIds:
    """The ids of the nodes of a type.

    Parameters
    ----------
    num_nodes
        How many nodes there are; None if the largest number in edges and items decides.
    num_rows
        How many of them are rows of the table of nodes; the others were added.
    keys
        The table of keys; None where ids are numbers of nodes.
    is_text
        Whether keys are texts.
    is_key
        Whether ids were given as keys, also where these turned out to be the numbers of nodes.
    advice
        The beginning of what to do about unknown ids, where ids of nodes may have been forgotten.
    """

    num_nodes: int | None
    num_rows: int
    keys: str | None = None
    is_text: bool = False
    is_key: bool = False
    advice: str = ""


def are_texts(node: NodeTable, references: Sequence[Reference]) -> bool:
    """Whether ids of a type are texts; all columns of them are alike."""
    if node.table is not None:
        return node.id is not None and node.table.column(node.id).is_text
    return any(one.table.column(one.column).is_text for one in references)


def find_keys(
    base: Database,
    name: str,
    node: NodeTable,
    references: Sequence[Reference],
    *,
    options: Options,
    room: int,
    advance: Advance,
) -> Facts:
    """Make the table of the keys of a type, and perhaps `repeats_of` of the rows that repeat one.

    Returns
    -------
    Facts
        ``num_rows`` of the table of nodes that stay, how many are ``repeats``, ``num_nodes``, and whether keys
        ``are_numbers`` of nodes.

    Raises
    ------
    InputError
        If a key of the table of nodes is null, or there twice.
    """
    kind = "VARCHAR" if are_texts(node, references) else "BIGINT"
    base.execute(f"CREATE OR REPLACE TABLE {name} (key {kind}, node BIGINT)")
    num_rows = repeats = 0
    if node.table is not None and node.id is not None:
        repeats = _read_keys(base, name, node, options, room, advance)
        num_rows = base.value(f"SELECT count(*) FROM {name}")
    if options.unknown_ids == "create" or node.table is None:
        _collect(base, name, kind, references, bool(num_rows), room, advance)
        base.execute(
            f"INSERT INTO {name} SELECT key, {num_rows} + row_number() OVER (ORDER BY key) - 1 "
            "FROM (SELECT DISTINCT key FROM seen)"
        )
        base.execute("DROP TABLE seen")
    num_nodes = base.value(f"SELECT count(*) FROM {name}")
    are_numbers = kind == "BIGINT" and num_nodes > 0 and base.value(f"SELECT bool_and(key = node) FROM {name}")
    return {"num_rows": num_rows, "repeats": repeats, "num_nodes": num_nodes, "are_numbers": bool(are_numbers)}


def repeats_of(name: str) -> str:
    """Return the name of the table ``(row)`` of the rows that repeat a key of the table of a name."""
    return f"{name}_repeats"


def _read_keys(base: Database, name: str, node: NodeTable, options: Options, room: int, advance: Advance) -> int:
    """Read the keys of a table of nodes, and return how many rows were left out as they repeat one."""
    table, column = node.table, node.id
    assert table is not None
    assert column is not None
    with feed_rows(base, table, {"key": column}, room, advance, keys=["key"]):
        base.execute(f"INSERT INTO {name} SELECT key, row FROM {INCOMING}")
    null = base.value(f"SELECT min(node) FROM {name} WHERE key IS NULL")
    if null is not None:
        raise InputError(
            f"convert: {table.where(null)}: expected an id of a {node.type} in {column!r}, got null; remove the row, "
            "or number it"
        )
    repeated = base.row(
        f"SELECT key, min(node), count(*) - 1 FROM {name} GROUP BY key HAVING count(*) > 1 ORDER BY min(node) LIMIT 1"
    )
    if repeated is None:
        return 0
    if options.duplicate_ids == "refuse":
        key, first, _ = repeated
        second = base.value(f"SELECT min(node) FROM {name} WHERE key = ? AND node > ?", [key, first])
        count = base.value(f"SELECT count(*) - count(DISTINCT key) FROM {name}")
        raise InputError(
            f"convert: {table.where(second)}: expected each id once in {column!r}, got {key!r} again, which is in "
            f"{table.where(first)} ({count} such row{'s' * (count > 1)}); remove the repeats, or pass "
            "duplicate_ids='drop' (--duplicate-ids drop: the first row of each stays)"
        )
    repeats = repeats_of(name)
    base.execute(f"CREATE OR REPLACE TABLE firsts AS SELECT key, min(node) AS first FROM {name} GROUP BY key")
    base.execute(
        f"CREATE OR REPLACE TABLE {repeats} AS SELECT node AS row FROM {name} ANTI JOIN firsts ON first = node"
    )
    base.execute(
        f"CREATE OR REPLACE TABLE {name} AS SELECT key, row_number() OVER (ORDER BY first) - 1 AS node FROM firsts"
    )
    base.execute("DROP TABLE firsts")
    return int(base.value(f"SELECT count(*) FROM {repeats}"))


def _collect(
    base: Database,
    name: str,
    kind: str,
    references: Sequence[Reference],
    some_known: bool,
    room: int,
    advance: Advance,
) -> None:
    """Make the table ``seen`` of the keys that other columns have and `name` has not."""
    base.execute(f"CREATE OR REPLACE TABLE seen (key {kind})")
    by_table: dict[int, tuple[Table, dict[str, None]]] = {}
    for one in references:
        by_table.setdefault(id(one.table), (one.table, {}))[1][one.column] = None
    known = f"LEFT JOIN {name} k ON k.key = i.key WHERE k.key IS NULL AND" if some_known else "WHERE"
    for table, columns in by_table.values():
        new = f"INSERT INTO seen SELECT DISTINCT i.key FROM {INCOMING} i {known} i.key IS NOT NULL"
        feed_keys(base, table, list(columns), room, advance, new)
