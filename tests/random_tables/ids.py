"""Ids of nodes: integers or texts by type, and the number of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from random_tables.cells import FLOATS, INT64, INTEGERS, TEXTS, kind_of, number, settled_kind, texts
from random_tables.tables import FIRST, Column, Judge, Table

CANONICAL = re.compile(r"0|-?[1-9][0-9]*")


@dataclass(eq=False)
class IdColumn:
    """A column of ids.

    Parameters
    ----------
    keys
        The id of each row; None for null.
    says
        "integers" or "texts" where the type of the column leaves no doubt.
    """

    column: Column
    table: Table
    keys: list[Any] = field(default_factory=list)
    says: str = ""


def is_canonical(cell: str) -> bool:
    return CANONICAL.fullmatch(cell) is not None and int(cell) in INT64


def read_ids(columns: Sequence[IdColumn], judge: Judge, *, are_numbers: bool) -> str:
    """Fill in the keys of all columns with ids of a type; return whether they are "integers" or "texts".

    Parameters
    ----------
    are_numbers
        Whether nodes are numbered, whatever is written in columns.
    """
    for one in columns:
        one.keys, one.says = _of_column(one, judge)
    sure = {one.says for one in columns if one.says in ("integers", "texts")} | ({"integers"} if are_numbers else set())
    are_texts = "texts" in sure
    if not are_texts and not (are_texts := any(_has_text(one, stop=FIRST) for one in columns)):
        late = [one for one in columns if _has_text(one)]
        if late and "integers" not in sure and judge.choose("types of first rows") == "all rows":
            are_texts = True
        else:
            for one in late:
                wrong = [row for row, key in enumerate(one.keys) if _is_text(key)]
                judge.refuse(f"an id that is no integer in {one.column.quoted}", one.table, wrong)
    if are_texts and "integers" in sure:
        _refuse(columns, "texts and integers as ids", judge)
    for one in columns:  # of what is refused some key of the type is as good as another
        if one.column.type == "csv" and "" in one.keys:
            is_null = not are_texts or judge.choose("quoted empty text") == "null"
            one.keys = [None if is_null and key == "" else key for key in one.keys]
        one.keys = [_as_text(key) if are_texts else _as_integer(key) for key in one.keys]
    return "texts" if are_texts else "integers"


def _as_text(key: Any) -> str | None:
    return key if key is None else str(key)


def _as_integer(key: Any) -> int | None:
    if isinstance(key, str):
        return int(key) if is_canonical(key) else None
    return key


def _refuse(columns: Iterable[IdColumn], reason: str, judge: Judge) -> None:
    for one in columns:
        judge.refuse(reason, one.table, range(one.table.num_rows), [one.column.name, *one.table.files])


def _has_text(one: IdColumn, *, stop: int | None = None) -> bool:
    return one.says == "" and any(_is_text(key) for key in one.keys[:stop])


def _is_text(key: Any) -> bool:
    return isinstance(key, str) and key != "" and not is_canonical(key)


def _of_column(one: IdColumn, judge: Judge) -> tuple[list[Any], str]:
    """The cells of a column as keys, and what the column is by its type: "integers", "texts" or "" if that is open."""
    column, table, name = one.column, one.table, one.column.quoted
    words = [name, f" {column.name}"]  # also "in nodes.csv key"
    kind = column.type
    if kind == "csv":
        return _of_csv(column, table, judge)
    if not column.cells:
        return [], ""
    if kind in (*TEXTS, "binary"):
        return texts(column, table, judge), "texts"
    if kind in INTEGERS or kind.endswith(" 0)"):
        keys = [None if cell is None else int(cell) for cell in column.cells]
        far = [row for row, key in enumerate(keys) if key is not None and key not in INT64]
        option = judge.choose("ids from 2**63") if far else ""
        if kind == "uint64" and not far:
            return keys, ""
        if option == "refuse":
            judge.refuse(f"an id from 2**63 in {name}", table, far, words)
        return [str(key) if option == "texts" and key is not None else key for key in keys], option or "integers"
    if kind in FLOATS or kind.startswith("decimal"):
        keys, wrong = [], []
        for row, cell in enumerate(column.cells):
            is_null = cell is None or cell != cell  # noqa: PLR0124 - NaN
            is_exact = isinstance(cell, Decimal) or abs(cell or 0.0) < 2**53
            is_whole = not is_null and is_exact and cell == int(cell)
            keys.append(int(cell) if is_whole else None)
            wrong += [] if is_null or is_whole else [row]
        judge.refuse(f"fractions as ids in {name}", table, wrong, words)
        return keys, "integers"
    if kind == "null":
        return column.cells, ""
    judge.refuse(f"{kind} as ids in {name}", table, words=words)
    return [None] * table.num_rows, "integers"


def _of_csv(column: Column, table: Table, judge: Judge) -> tuple[list[Any], str]:
    name = column.quoted
    words = [name, f" {column.name}"]
    if column.declared == "text":
        return column.cells, "texts"
    if column.declared == "int":
        settled_kind(column, table, judge)
        return [int(cell) if cell and cell.lstrip("-").isdigit() else None for cell in column.cells], "integers"
    kind = kind_of(column.cells)
    is_other = bool({kind, kind_of(column.cells[:FIRST])} & {"booleans", "vectors"})
    if is_other and judge.choose("ids of other types") == "refuse":
        judge.refuse(f"{kind} as ids in {name}", table, range(table.num_rows), words)
    if kind == "numbers":
        option = judge.choose("ids that are numbers")
        wrong = [row for row, cell in enumerate(column.cells) if cell and kind_of([cell]) == "numbers"]
        values = [number(cell) if cell else None for cell in column.cells]
        is_whole = all(
            isinstance(value, int | Decimal) and value == int(value) for value in values if value is not None
        )
        if option == "integers" and is_whole:
            return [None if value is None else int(value) for value in values], "integers"
        if option != "texts":
            judge.refuse(f"numbers as ids in {name}", table, wrong, words)
    return column.cells, ""
