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
from headrace.pipeline.convert.description import NodeTable
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
    advice
        The beginning of what to do about unknown ids, where ids of nodes may have been forgotten.
    """

    num_nodes: int | None
    num_rows: int
    keys: str | None = None
    is_text: bool = False
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
    create: bool,
    room: int,
    advance: Advance,
) -> Facts:
    """Make the table of the keys of a type.

    Returns
    -------
    Facts
        ``num_rows`` of the table of nodes, ``num_nodes``, whether keys ``are_numbers`` of nodes, and for tables of
        edges that name nodes of both columns without a table of them, how many ids are in both: ``shared``.

    Raises
    ------
    InputError
        If a key of the table of nodes is null, or there twice.
    """
    kind = "VARCHAR" if are_texts(node, references) else "BIGINT"
    base.execute(f"CREATE OR REPLACE TABLE {name} (key {kind}, node BIGINT)")
    num_rows = 0
    if node.table is not None and node.id is not None:
        num_rows = _read_keys(base, name, node.table, node.id, node.type, room, advance)
    shared: dict[str, int] = {}
    if create or node.table is None:
        _collect(base, name, kind, references, room, advance)
        shared = _shared(base, references)
        base.execute(
            f"INSERT INTO {name} SELECT key, {num_rows} + row_number() OVER (ORDER BY key) - 1 "
            "FROM (SELECT DISTINCT key FROM seen)"
        )
        base.execute("DROP TABLE seen")
    num_nodes = base.value(f"SELECT count(*) FROM {name}")
    are_numbers = kind == "BIGINT" and num_nodes > 0 and base.value(f"SELECT bool_and(key = node) FROM {name}")
    return {"num_rows": num_rows, "num_nodes": num_nodes, "are_numbers": bool(are_numbers), "shared": shared}


def _read_keys(
    base: Database, name: str, table: Table, column: str, node_type: str, room: int, advance: Advance
) -> int:
    with feed_rows(base, table, {"key": column}, room, advance, keys=["key"]):
        base.execute(f"INSERT INTO {name} SELECT key, row FROM {INCOMING}")
    null = base.value(f"SELECT min(node) FROM {name} WHERE key IS NULL")
    if null is not None:
        raise InputError(
            f"convert: {table.where(null)}: expected an id of a {node_type} in {column!r}, got null; remove the row, "
            "or number it"
        )
    repeated = base.row(
        f"SELECT key, min(node), count(*) - 1 FROM {name} GROUP BY key HAVING count(*) > 1 ORDER BY min(node) LIMIT 1"
    )
    if repeated is not None:
        key, first, _ = repeated
        second = base.value(f"SELECT min(node) FROM {name} WHERE key = ? AND node > ?", [key, first])
        count = base.value(f"SELECT count(*) - count(DISTINCT key) FROM {name}")
        raise InputError(
            f"convert: {table.where(second)}: expected each id once in {column!r}, got {key!r} again, which is in "
            f"{table.where(first)} ({count} such row{'s' * (count > 1)}); remove the repeats"
        )
    return int(base.value(f"SELECT count(*) FROM {name}"))


def _collect(
    base: Database, name: str, kind: str, references: Sequence[Reference], room: int, advance: Advance
) -> None:
    """Make the table ``seen`` of the keys that other columns have and `name` has not, with the columns they are in."""
    base.execute(f"CREATE OR REPLACE TABLE seen (key {kind}, place BIGINT)")
    by_table: dict[int, list[tuple[int, Reference]]] = {}
    for place, one in enumerate(references):
        by_table.setdefault(id(one.table), []).append((place, one))
    for group in by_table.values():
        table = group[0][1].table
        columns = list(dict.fromkeys(one.column for _, one in group))
        places = [next(place for place, one in group if one.column == column) for column in columns]
        place = f"[{', '.join(map(str, places))}][i.side + 1]"
        with feed_keys(base, table, columns, room, advance):
            base.execute(
                f"INSERT INTO seen SELECT DISTINCT i.key, {place} FROM {INCOMING} i "
                f"LEFT JOIN {name} k ON k.key = i.key WHERE i.key IS NOT NULL AND k.key IS NULL"
            )


def _shared(base: Database, references: Sequence[Reference]) -> dict[str, int]:
    """Return by the name of its columns how many keys both columns of a table of edges have."""
    places = {one.key: place for place, one in enumerate(references)}
    found = {}
    for key, place in places.items():
        other = places.get(key.removesuffix(".src") + ".dst") if key.endswith(".src") else None
        if other is not None:
            found[key.removesuffix(".src")] = base.value(
                "SELECT count(*) FROM (SELECT key FROM seen WHERE place IN (?, ?) GROUP BY key HAVING count(*) = 2)",
                [place, other],
            )
    return found
