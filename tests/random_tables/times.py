"""Columns of times: plain numbers, or integers in a unit, and what all times of a data set become."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from random_tables.cells import FLOATS, INT64, INTEGER, INTEGERS, NUMBER, TEXTS, number
from random_tables.tables import EARLIEST, FIRST, Column, Judge, Numbers, Table

#: Of Parquet, which has no seconds: what is written in seconds is read in milliseconds.
UNITS = {"days": 86_400 * 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
DATETIME = re.compile(DATE.pattern + r"[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
#: Times as people write them.
OTHER = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z| UTC|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(eq=False)
class Times:
    """Times of one column: nanoseconds where there is a unit, and otherwise the numbers; None for null."""

    values: list[Any]
    unit: str | None


def _zone(text: str | None) -> timezone:
    if text is None or text.strip() in ("Z", "UTC"):
        return timezone.utc
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def nanoseconds(text: str, pattern: re.Pattern[str]) -> int | None:
    """A time since 1970 in UTC; None for a text that is none."""
    match = pattern.fullmatch(text)
    if match is None:
        return None
    parts = match.groups()
    year, month, day, hour, minute, second = (int(part or 0) for part in (*parts, None, None, None)[:6])
    fraction, zone = (*parts, None, None)[6:8] if len(parts) > 3 else (None, None)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=_zone(zone)) - EPOCH
    except (ValueError, OverflowError):
        return None
    return (moment.days * 86_400 + moment.seconds) * 10**9 + int((fraction or "").ljust(9, "0"))


def times(column: Column, table: Table, judge: Judge) -> Times:
    """The times of a column."""
    kind = column.type
    if kind in ("csv", *TEXTS):
        return _times_of_texts(column, table, judge)
    if kind in (*INTEGERS, *FLOATS, "null"):
        is_none = [cell is not None and cell != cell for cell in column.cells]  # noqa: PLR0124 - NaN
        return Times(_without_nan(column, column.cells, is_none, table, judge), None)
    units = {"date32": "days", "date64": "days", "timestamp[s": "ms", "timestamp[ms": "ms", "timestamp[us": "us"}
    unit = next((unit for prefix, unit in {**units, "timestamp[ns": "ns"}.items() if kind.startswith(prefix)), None)
    if unit is None:
        judge.refuse(f"times of {kind}", table, words=[column.quoted])
        return Times([None] * table.num_rows, None)
    scale = UNITS[unit] * (1000 if kind.startswith("timestamp[s") else 1)
    return Times([None if cell is None else cell * scale for cell in column.cells], unit)


def _without_nan(
    column: Column, values: Sequence[Any], is_nan: Sequence[bool], table: Table, judge: Judge
) -> list[Any]:
    nan = [row for row, is_one in enumerate(is_nan) if is_one]
    if nan and judge.choose("not a time") == "refuse":
        judge.refuse(f"NaN as a time in {column.quoted}", table, nan, [column.quoted])
    return [None if is_one else value for value, is_one in zip(values, is_nan, strict=True)]


def _times_of_texts(column: Column, table: Table, judge: Judge) -> Times:
    cells = [cell or None for cell in column.cells] if column.type == "csv" else column.cells
    there = [cell for cell in cells if cell is not None]
    if column.type == "csv" and all(map(NUMBER.fullmatch, there)):
        return _plain_times(column, cells, table, judge)
    values: list[int | None] = [None] * len(cells)
    wrong, other = [], []
    for row, cell in enumerate(cells):
        if cell is None:
            continue
        pattern = next((one for one in (DATE, DATETIME) if one.fullmatch(cell)), OTHER)
        values[row] = nanoseconds(cell, pattern)
        other += [row] if pattern is OTHER else []
        if values[row] is None:
            wrong.append(row)
    of_type = [column.quoted] if any(row < FIRST for row in [*wrong, *other]) else []
    judge.refuse(f"no time in {column.quoted}", table, wrong, of_type)
    if other and judge.choose("other times") == "refuse":
        judge.refuse(f"another notation of times in {column.quoted}", table, other, of_type)
    are_days = [DATE.fullmatch(cell) is not None for cell in there]
    first = min(FIRST, next(filter(None, table.counts), FIRST))  # or those of the first file
    are_first_days = [DATE.fullmatch(cell) is not None for cell in cells[:first] if cell is not None]
    if all(are_first_days) and not all(are_days) and judge.choose("types of first rows") == "refuse":
        late = [row for row, cell in enumerate(cells) if cell is not None and not DATE.fullmatch(cell)]
        judge.refuse(f"dates in the first rows of {column.quoted}", table, late)
    fine = [row for row, value in enumerate(values) if value is not None and value % 1000]
    if fine and judge.choose("nanoseconds in texts") == "refuse":
        judge.refuse(f"nanoseconds in {column.quoted}", table, fine, of_type or [column.quoted])
    return Times(values, None if not there else "ns" if fine else "days" if all(are_days) else "us")


def _plain_times(column: Column, cells: Sequence[str | None], table: Table, judge: Judge) -> Times:
    values = [None if cell is None else number(cell) for cell in cells]
    is_nan = [isinstance(value, float) and value != value for value in values]  # noqa: PLR0124
    late = [row for row, cell in enumerate(cells) if cell and not INTEGER.fullmatch(cell)]
    if late and late[0] >= FIRST and judge.choose("types of first rows") == "refuse":
        judge.refuse(f"integers in the first rows of {column.quoted}", table, late)
    far = [row for row, value in enumerate(values) if isinstance(value, int) and value not in INT64]
    if far:
        judge.refuse(f"a time beyond 64 bits in {column.quoted}", table, far)
    return Times(_without_nan(column, values, is_nan, table, judge), None)


def in_one_unit(columns: Sequence[tuple[Times, Column, Table, str]], time_unit: str | None, judge: Judge) -> str | None:
    """Refuse times without a unit beside others; return the finest unit."""
    known = [times for times, *_ in columns if any(value is not None for value in times.values) or times.unit]
    for attribute in sorted({attribute for *_, attribute in columns}):
        _refuse_integers_beside_fractions([one for one in columns if one[3] == attribute], judge)
        units = {times.unit for times, _, _, of in columns if of == attribute and times in known}
        if None in units and len(units) > 1:
            for _, column, table, of in columns:
                if of == attribute:
                    judge.refuse("times with a unit beside others", table, words=[f"{column.name}"])
    units = [times.unit for times in known if times.unit is not None]
    if units and len(units) < len(known) and judge.choose("times with and without unit") == "refuse":
        for times, column, table, _ in columns:
            if times in known:
                judge.refuse("times with a unit beside others", table, words=[f"{column.name}"])
    finest = min(units, key=UNITS.__getitem__, default=None)
    for times, column, table, _ in columns:
        if times.unit is not None and finest is not None:
            far = [
                row
                for row, value in enumerate(times.values)
                if value is not None and _scaled(value, finest) not in INT64
            ]
            judge.refuse(f"a time of {column.quoted} beyond 64 bits in {finest}", table, far)
    if finest is not None and time_unit not in (None, finest):
        for _, column, table, _ in columns:
            judge.refuse("another time_unit", table, words=[column.name])
    return finest or time_unit


def _refuse_integers_beside_fractions(columns: Sequence[tuple[Times, Column, Table, str]], judge: Judge) -> None:
    """Refuse integers that float64 does not have, where other columns have fractions."""
    values = [value for times, *_ in columns for value in times.values if times.unit is None and value is not None]
    has_fractions = any(not isinstance(value, int) for value in values)
    is_far = any(isinstance(value, int) and abs(value) > 2**53 for value in values)
    if has_fractions and is_far and judge.choose("integers beside fractions as times") == "refuse":
        for _, column, table, _ in columns:
            judge.refuse("integers beside fractions as times", table, words=[column.name])


def _scaled(value: int, unit: str) -> int:
    return value // UNITS[unit]


def as_numbers(times: Times, rows: Sequence[int], unit: str | None) -> Numbers:
    """The times of the rows that stay, the earliest for null."""
    values = [times.values[row] for row in rows]
    if times.unit is not None:
        values = [None if value is None else _scaled(value, str(unit)) for value in values]
    # Integers keep their values, whatever holds them; others become the nearest number of floating point.
    are_integers = all(isinstance(value, int) for value in values if value is not None)
    rows_of_times = [EARLIEST if value is None else value for value in values]
    return Numbers(rows_of_times, None if are_integers else frozenset(FLOATS))
