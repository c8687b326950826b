"""Cells of columns as numbers, labels and texts: by regular expressions, `int` and `Decimal`, one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from random_tables.tables import ABSENT, EARLIEST, FIRST, MISSING, Column, Judge, Numbers, Table

INTEGER = re.compile(r"-?[0-9]+")
NUMBER = re.compile(r" *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)? *| *[+-]?(inf|infinity|nan) *", re.IGNORECASE)
DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]+")

INT64 = range(-(2**63), 2**63)
FLOATS = ("float16", "float32", "float64")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
TEXTS = ("string", "large_string", "string_view", "dictionary")

#: The largest finite number of float32 and half of the distance to what would be the next one.
FLOAT32_END = (2 - Fraction(1, 2**23) + Fraction(1, 2**24)) * 2**127


def number(text: str) -> int | Decimal | float:
    """The number that a text is, exactly."""
    text = text.strip()
    if INTEGER.fullmatch(text):
        return int(text)
    return float(text) if re.search("[in]", text, re.IGNORECASE) else Decimal(text)


def kind_of(cells: Iterable[str | None]) -> str:
    """What a column of CSV holds."""
    there = [cell for cell in cells if cell]
    if not there:
        return "empty"
    if all(map(INTEGER.fullmatch, there)):
        return "integers"
    if all(map(NUMBER.fullmatch, there)):
        return "numbers"
    if all(cell.lower() in ("true", "false") for cell in there):
        return "booleans"
    parts = [cell.split(",") for cell in there]
    are_numbers = all(NUMBER.fullmatch(one) for part in parts for one in part)
    if are_numbers and len(parts[0]) > 1 and len({len(part) for part in parts}) == 1:
        return "vectors"
    return "texts"


def _is_of(kind: str, cell: str | None, first: Sequence[str | None]) -> bool:
    """Whether a cell fits the first ones, which are of a kind."""
    return not cell or kind_of([*first[:1], cell]) == kind


def settled_kind(column: Column, table: Table, judge: Judge) -> str:
    """What a column of CSV holds, or is refused to hold."""
    given = {"int": "integers", "float": "numbers", "text": "texts"}.get(column.declared or "")
    if given is not None:
        like = ["1" if given == "integers" else "1.5"]
        wrong = [row for row, cell in enumerate(column.cells) if given != "texts" and not _is_of(given, cell, like)]
        if wrong:
            judge.refuse(f"not of the type of {column.quoted}", table, wrong)
        return given
    first, kind = kind_of(column.cells[:FIRST]), kind_of(column.cells)
    if first == kind:
        return kind
    if first == "empty" and kind == "integers":
        return judge.choose("empty first rows")
    if first != "empty" and judge.choose("types of first rows") == "refuse":
        there = [cell for cell in column.cells[:FIRST] if cell]
        wrong = [row for row, cell in enumerate(column.cells) if not _is_of(first, cell, there)]
        judge.refuse(f"{column.quoted} has {first} first", table, wrong)
    return kind


def numbers(column: Column, table: Table, judge: Judge, role: str, *, is_wide_too: bool = False) -> Numbers:
    """The numbers of a column, with None for null, as a "feature", part of a "wide" one, "weight" or "attribute"."""
    if column.type != "csv":
        return _numbers_of_parquet(column, table, judge)
    kind = settled_kind(column, table, judge)
    floats = {"feature": {"float32"}, "wide": {"float32"}}.get(role, {"float32", "float64"})
    if kind == "texts":
        wrong = [row for row, cell in enumerate(column.cells) if cell and not NUMBER.fullmatch(cell)]
        judge.refuse(f"texts in {column.quoted}", table, wrong, [column.quoted])
        return Numbers([None] * table.num_rows)
    if kind == "vectors":
        return _vectors(column, table, judge)
    if kind == "booleans":
        return Numbers([None if not cell else cell.lower() == "true" for cell in column.cells])
    values = [number(cell) if cell else None for cell in column.cells]
    if kind == "empty":
        return Numbers(values)
    if kind == "integers":
        far = [row for row, value in enumerate(values) if value is not None and value not in INT64]
        if not far or judge.choose("integers beyond 64 bits") == "refuse":
            judge.refuse(f"an integer beyond 64 bits in {column.quoted}", table, far)
            wide = floats if role in ("wide", "weight") or is_wide_too else set()
            return Numbers(values, frozenset({*wide, *(() if role == "wide" else ("int64",))}))
    return Numbers(values, _floats(column, values, table, judge, floats))


def _floats(column: Column, values: list[Any], table: Table, judge: Judge, floats: set[str]) -> frozenset[str]:
    """The dtypes that hold numbers, none of which may become infinite without a word."""

    def beyond(end: Fraction) -> list[int]:
        return [
            row for row, value in enumerate(values) if isinstance(value, int | Decimal) and abs(Fraction(value)) >= end
        ]

    rounded = [row for row, value in enumerate(values) if isinstance(value, int) and abs(value) > 2**53]
    if rounded and judge.choose("integers among fractions") == "refuse":
        judge.refuse(f"an integer among fractions in {column.quoted}", table, rounded)
    if far := beyond(Fraction(2**1024 - 2**970)):
        if judge.choose("beyond float64") == "refuse":
            judge.refuse(f"a number beyond float64 in {column.quoted}", table, far)
        return frozenset({"float32", "float64"})
    if (far := beyond(FLOAT32_END)) and floats == {"float32"}:
        if judge.choose("beyond float32") == "refuse":
            judge.refuse(f"a number beyond float32 in {column.quoted}", table, far)
        return frozenset({"float64"})
    return frozenset(floats - {"float32"} if far else floats)


def _vectors(column: Column, table: Table, judge: Judge) -> Numbers:
    cells = column.cells
    if all(DECIMAL_COMMA.fullmatch(cell) for cell in cells if cell):
        option = judge.choose("decimal commas")
        if option == "refuse":
            judge.refuse("decimal commas", table, range(table.num_rows), [column.quoted])
        if option == "numbers":
            return Numbers([number(cell.replace(",", ".")) if cell else None for cell in cells])
        judge.warnings.append(column.name)
    values = [tuple(map(number, cell.split(","))) if cell else None for cell in cells]
    return Numbers(values, frozenset({"float32"}), _width(column, values, table, judge))


def _width(column: Column, values: list[tuple | None], table: Table, judge: Judge) -> int:
    """The length of the vectors of a column, all of which have one."""
    length = next((len(value) for value in values if value is not None), 0)
    odd = [row for row, value in enumerate(values) if value is not None and len(value) != length]
    judge.refuse(f"another length in {column.quoted}", table, odd)
    if length == 0 and any(value is not None for value in values):
        judge.refuse(f"vectors of nothing in {column.quoted}", table, words=[column.quoted])
    return length


def _numbers_of_parquet(column: Column, table: Table, judge: Judge) -> Numbers:
    kind = column.type
    if kind in (*INTEGERS, *FLOATS, "bool"):
        return Numbers(column.cells, frozenset({kind}))
    if kind == "null":
        return Numbers(column.cells)
    if kind.startswith("decimal"):
        return Numbers(
            [int(cell) if cell is not None and cell == int(cell) else cell for cell in column.cells],
            frozenset({"float32", "float64", *(["int64"] if kind.endswith(" 0)") else [])}),
        )
    if kind.startswith(("list", "large_list", "fixed_size_list")):
        values = [None if cell is None else tuple(cell) for cell in column.cells]
        width = _width(column, values, table, judge)
        holes = [row for row, value in enumerate(values) if value is not None and None in value]
        judge.refuse(f"null in a vector of {column.quoted}", table, holes)
        return Numbers(values, frozenset({kind.partition("<")[2].partition(">")[0]}), width)
    judge.refuse(f"{kind} in {column.quoted}", table, range(table.num_rows), [column.quoted])
    return Numbers([None] * table.num_rows)


def without_nulls(
    rows: Numbers, kept: Sequence[int], table: Table, judge: Judge, reason: str, *, is_wrong: Callable | None = None
) -> Numbers:
    """The numbers of the rows that stay; null, and what is wrong, is refused there."""

    def wrong(value: Any) -> bool:
        return value is None or (is_wrong is not None and is_wrong(value))

    judge.refuse(reason, table, [row for row in kept if wrong(rows.values[row])])
    if len(kept) < table.num_rows:
        others = [row for row in sorted(set(range(table.num_rows)) - set(kept)) if wrong(rows.values[row])]
        if others and judge.choose("cells of left out rows") == "refuse":
            judge.refuse(reason, table, others)
    return rows.of(kept)


def labels(column: Column, kept: Sequence[int], table: Table, judge: Judge) -> tuple[Numbers, list[str] | None]:
    """The labels of the rows that stay, and the texts that they number, or None."""
    kind = settled_kind(column, table, judge) if column.type == "csv" else ""
    if kind == "integers" and any(re.match("-?0[0-9]", cell or "") for cell in column.cells):
        kind = "integers" if judge.choose("labels with zeros in front") == "numbers" else "texts"
    if kind == "vectors":
        kind = judge.choose("labels that are vectors")
        if kind == "refuse":
            judge.refuse(f"vectors as labels in {column.quoted}", table, words=[column.quoted])
    if kind == "texts" or column.type in (*TEXTS, "binary"):
        return _numbered_texts(column, kept, table, judge)
    rows = numbers(column, table, judge, "label")
    values = [MISSING if value is None or value != value else value for value in rows.of(kept).values]  # noqa: PLR0124
    dtypes = rows.dtypes
    is_null = any(cell in (None, "") for cell in column.cells)
    if is_null and (kind == "booleans" or column.type == "bool" or column.type.startswith("uint")):
        if judge.choose("booleans or unsigned labels with nulls") == "refuse":
            judge.refuse("nulls in labels without room for -100", table, words=["of floating point or signed"])
        dtypes = None
    elif column.type == "bool" or column.type.endswith(" 0)"):
        dtypes = None
    return Numbers(values, dtypes), None


def texts(column: Column, table: Table, judge: Judge) -> list[str | None]:
    """The texts of a column, with None for null."""
    if column.type == "binary":
        if judge.choose("bytes") == "refuse":
            judge.refuse(f"bytes in {column.quoted}", table, words=["binary", "bytes"])
        return [None if cell is None else cell.decode() for cell in column.cells]
    if column.type == "csv" and "" in column.cells and judge.choose("quoted empty text") == "null":
        return [cell or None for cell in column.cells]
    return column.cells


def _numbered_texts(column: Column, kept: Sequence[int], table: Table, judge: Judge) -> tuple[Numbers, list[str]]:
    """Texts become 0, 1, ... in the order of their bytes."""
    found = texts(column, table, judge)
    classes, of_kept = ({found[row] for row in rows} - {None} for rows in (range(table.num_rows), kept))
    if classes != of_kept and judge.choose("classes of left out rows") == "kept rows":
        classes = of_kept
    order = sorted(classes, key=str.encode)
    codes = {text: code for code, text in enumerate(order)}
    return Numbers([codes.get(found[row], MISSING) for row in kept], frozenset({"int64"})), order


def side_by_side(columns: Sequence[Column], table: Table, judge: Judge) -> Numbers:
    """One row of several columns of numbers; a null in one is a null."""
    parts = [numbers(one, table, judge, "wide") for one in columns]
    rows = zip(*(one.values for one in parts), strict=True)
    values = [None if None in row else tuple(row) for row in rows]
    types = {one.type for one in columns}
    if len(types) == 1:
        return Numbers(values, parts[0].dtypes, len(parts))
    if all(one in (*INTEGERS, "bool") or one.endswith(" 0)") for one in types):
        is_mixed = "uint64" in types and any(one[0] == "i" for one in types)
        if is_mixed and judge.choose("integers without a common type") == "refuse":
            names = [one.quoted for one in columns]
            judge.refuse("signed and unsigned integers side by side", table, range(table.num_rows), names)
        return Numbers(values, None, len(parts))
    numbers_of = [[one for one in part.values if one is not None] for part in parts]
    are_mixed = any(not isinstance(one, int) for some in numbers_of for one in some)
    far = [
        row
        for row, cells in enumerate(values)
        if cells is not None and any(isinstance(one, int) and abs(one) > 2**53 for one in cells)
    ]
    if are_mixed and far and judge.choose("integers among fractions") == "refuse":
        judge.refuse("integers beside fractions in a feature", table, far, [one.quoted for one in columns])
    has_half = types & set(FLOATS) == {"float16"} and types <= {"float16", "int8", "uint8", "bool"}
    return Numbers(values, frozenset(FLOATS if has_half else FLOATS[1:]), len(parts))


def added_value(mark: str, dtype: str) -> int | float:
    """What stands for a mark in rows of a dtype."""
    is_float = dtype in FLOATS
    if mark is MISSING:
        return float("nan") if is_float else -100
    if mark is EARLIEST:
        return -float("inf") if is_float else -(2**63)
    assert mark is ABSENT
    return float("nan") if is_float else 0
