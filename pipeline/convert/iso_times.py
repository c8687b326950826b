"""Times that are texts: ISO dates and datetimes, as integers since 1970 in a unit that the manifest has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.pipeline.convert.description import Description, EdgeTable, Items, NodeTable
from headrace.pipeline.convert.table import Table
from headrace.pipeline.convert.time_units import InUnit, Times, finest

T = TypeVar("T", NodeTable, EdgeTable, Items)

_DATE = re.compile(r"\d{4}([-/])\d\d\1\d\d")
_DATETIME = re.compile(
    r"(?P<to_seconds>\d{4}([-/])\d\d\2\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:(?<=:\d\d:\d\d)\.(?P<fraction>\d{1,9}))?"
    r"(?: ?(?:Z|UTC|(?P<hours>[+-]\d\d)(?::?(?P<minutes>\d\d))?))?"
)

#: Times further from 1970 are no nanoseconds of 64 bits.
_SECONDS_OF_NANOSECONDS = 2**63 // 10**9

#: Rows by which it is told whether a column has dates or datetimes.
_SAMPLE = 1000

_WANTED = "2024-05-31, or 2024-05-31T13:45:00 with or without +02:00"


class IsoTimes(Times):
    """A table with ISO dates in some columns as days, or datetimes as micro- or nanoseconds, since 1970-01-01 in UTC.

    Times without an offset are those of UTC. They are in nanoseconds where one of the first has more than six digits
    of a second.

    Raises
    ------
    InputError
        If the first rows of a column are neither dates nor datetimes.
    """

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        super().__init__(table, {name: _unit_of(table, name) for name in columns})

    def _times(self, name: str, values: NDArray[Any], start: int) -> NDArray[Any]:
        null = np.array([not one for one in values], bool)
        found = np.zeros(len(values), np.int64)
        there = np.flatnonzero(~null)
        unit = self._units[name]
        parse = _PARSERS[unit]
        try:
            found[there] = parse(values[there].tolist())
        except ValueError:
            row = next(row for row in there.tolist() if not _is_time(parse, values[row]))
            forms = {"days": "a date as 2024-05-31, as in the first rows,", "ns": "a time from 1678 to 2261"}
            form = f"a time as {_WANTED}"
            if unit == "days" or _is_time(_parts, values[row]):
                form = forms.get(unit, "at most six digits of a second, as in the first rows,")
            raise InputError(
                f"convert: {self.where(start + row)}: expected {form} in {name!r}, got {values[row][:40]!r}; correct it"
            ) from None
        return np.ma.MaskedArray(found, null) if null.any() else found


def with_times(description: Description) -> Description:
    """Return a description whose times that are texts are read as ISO dates, and all times in the finest unit of them.

    Raises
    ------
    InputError
        If such a column has other texts, or its unit is not the one that options name.
    """
    edges = [_with_texts(one) for one in description.edges]
    nodes = [_with_texts(one) for one in description.nodes]
    items = [_with_texts(one) for one in description.items]
    units: dict[str, str] = {}
    owners: list[NodeTable | EdgeTable | Items] = [*edges, *nodes, *items]
    for one in owners:
        if one.table is not None:
            for column, unit in _units_of(one).items():
                units.setdefault(unit, f"{one.table.name} {column}")
    options = description.options
    if not units:
        return replace(description, edges=edges, nodes=nodes, items=items)
    unit = finest(list(units))
    if options.time_unit not in (None, unit):
        raise InputError(
            f"convert: expected time_unit to be {unit!r}, as {units[unit]} has times in it, got {options.time_unit!r}; "
            "leave time_unit out"
        )
    return replace(
        description,
        edges=[_in_unit(one, unit) for one in edges],
        nodes=[_in_unit(one, unit) for one in nodes],
        items=[_in_unit(one, unit) for one in items],
        options=replace(options, time_unit=unit),
    )


def _columns_of(one: NodeTable | EdgeTable | Items) -> list[str]:
    """Return the columns of times."""
    attribute = one.attributes.get("time") if isinstance(one, EdgeTable) else None
    return [name for name in (one.time, attribute) if name is not None]


def _with_texts(one: T) -> T:
    table = one.table
    texts = [name for name in _columns_of(one) if table is not None and table.column(name).is_text]
    return replace(one, table=IsoTimes(table, texts)) if table is not None and texts else one


def _units_of(one: NodeTable | EdgeTable | Items) -> dict[str, str]:
    """Return the units of the columns of times that state one."""
    if one.table is None:
        return {}
    found = {name: one.table.column(name).unit for name in _columns_of(one)}
    return {name: unit for name, unit in found.items() if unit is not None}


def _in_unit(one: T, unit: str) -> T:
    coarse = [name for name, own in _units_of(one).items() if own != unit]
    return replace(one, table=InUnit(one.table, coarse, unit)) if one.table is not None and coarse else one


def _unit_of(table: Table, column: str) -> str:
    for chunk in table.chunks([column], _SAMPLE):
        there = [one for one in chunk[column].tolist() if one]
        if there:
            if all(map(_DATE.fullmatch, there)):
                return "days"
            odd = next((one for one in there if not _DATE.fullmatch(one) and not _DATETIME.fullmatch(one)), None)
            if odd is None:
                fine = [match["fraction"] for one in there if (match := _DATETIME.fullmatch(one)) and match["fraction"]]
                return "ns" if any(fraction[6:].strip("0") for fraction in fine) else "us"
            raise InputError(
                f"convert: {table.name}: expected times to be numbers, or texts such as {_WANTED}, got {odd[:40]!r} in "
                f"{column!r}; write them so"
            )
    return "us"


def _days(texts: Sequence[str]) -> NDArray[np.int64]:
    if not all(map(_DATE.fullmatch, texts)):
        raise ValueError
    return _numpy_times(texts, "D")


def _microseconds(texts: Sequence[str]) -> NDArray[np.int64]:
    seconds, nanoseconds = _parts(texts)
    if (nanoseconds % 1000).any():
        raise ValueError
    return seconds * 10**6 + nanoseconds // 1000


def _nanoseconds(texts: Sequence[str]) -> NDArray[np.int64]:
    seconds, nanoseconds = _parts(texts)
    if len(seconds) and int(np.abs(seconds).max()) >= _SECONDS_OF_NANOSECONDS:
        raise ValueError
    return seconds * 10**9 + nanoseconds


def _parts(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return times as seconds since 1970, and nanoseconds beyond them."""
    to_seconds, fractions, offsets = [], np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
    for place, text in enumerate(texts):
        match = _DATETIME.fullmatch(text)
        if match is None:
            if not _DATE.fullmatch(text):
                raise ValueError
            to_seconds.append(text)
            continue
        to_seconds.append(match["to_seconds"])
        fractions[place] = int((match["fraction"] or "0").ljust(9, "0"))
        if match["hours"] is not None:
            minutes = 60 * int(match["hours"][1:]) + int(match["minutes"] or 0)
            offsets[place] = -minutes if match["hours"][0] == "-" else minutes
    return _numpy_times(to_seconds, "s") - offsets * 60, fractions


def _numpy_times(texts: Sequence[str], unit: str) -> NDArray[np.int64]:
    return np.array([one.replace("/", "-") for one in texts], f"datetime64[{unit}]").astype(np.int64)


_PARSERS = {"days": _days, "us": _microseconds, "ns": _nanoseconds}


def _is_time(parse: Any, text: str) -> bool:
    try:
        parse([text])
    except ValueError:
        return False
    return True
