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
from headrace.pipeline.convert.formats.views import View
from headrace.pipeline.convert.table import Column, Table
from headrace.pipeline.convert.time_units import InUnit, finest

T = TypeVar("T", NodeTable, EdgeTable, Items)

_DAY = r"[0-9]{4}(?:-[0-9]{2}-[0-9]{2}|/[0-9]{2}/[0-9]{2})"
_CLOCK = r"[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
_ZONE = r" ?(?:Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)"
_DATE = re.compile(f"^{_DAY}$")
_TIME = re.compile(f"^{_DAY}(?:{_CLOCK}(?:{_ZONE})?)?$")
_IN_ZONE = f":[0-9]{{2}}(?:\\.[0-9]+)?{_ZONE}$"
_AS_ARROW_HAS_IT = (
    ("/", "-"),
    (" ?UTC$", "Z"),
    (" ([+-][0-9:]+|Z)$", r"\1"),
    (r"(\.[0-9]{6}[0-9]*?)0+($|[Z+-])", r"\1\2"),  # digits beyond microseconds
)
_TOO_FINE = re.compile(r"\.[0-9]{6}[0-9]*[1-9]")

#: Rows by which it is told whether a column has dates or datetimes.
_SAMPLE = 1000

_WANTED = "2024-05-31, or 2024-05-31T13:45:00 with or without +02:00"


class IsoTimes(View):
    """A table with ISO dates in some columns as days, or datetimes as micro- or nanoseconds, since 1970-01-01 in UTC.

    Times without an offset are those of UTC. They are in nanoseconds where one of the first has more than six digits
    of a second. A column without any time has no unit.

    Raises
    ------
    InputError
        If the first rows of a column are neither dates nor datetimes.
    """

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        super().__init__(table, {name: Column(np.dtype(np.int64), unit=_unit_of(table, name)) for name in columns})

    def is_empty(self, column: str) -> bool:
        """Whether no row has a value in a column; `Table.is_empty` documents it."""
        return self.columns[column].unit is None if column in self._known else super().is_empty(column)

    def _changed(self, name: str, values: Any, start: int) -> NDArray[Any]:
        import pyarrow as pa

        texts = pa.array(values.tolist() if isinstance(values, np.ndarray) else values, pa.large_string())
        unit = self.columns[name].unit
        if unit is None:
            return np.ma.MaskedArray(np.zeros(len(texts), np.int64), np.ones(len(texts), bool))
        try:
            found, null = _parsed(texts, unit)
        except (pa.ArrowInvalid, ValueError):
            row, text = next((row, text) for row, text in enumerate(texts.tolist()) if not _is_time(text, unit))
            form = f"a time as {_WANTED}"
            if unit == "days":
                form = "a date as 2024-05-31, as in the first rows,"
            elif _TIME.match(text) and _is_time(_TOO_FINE.sub(r".0", text), "us"):
                form = (
                    "a time from 1678 to 2261"
                    if unit == "ns"
                    else "at most six digits of a second, as in the first rows,"
                )
            raise InputError(
                f"convert: {self.where(start + row)}: expected {form} in {name!r}, got {text[:40]!r}; correct it"
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
    """Return an owner with its times in a unit, also those of columns without any."""
    if one.table is None:
        return one
    units = {name: one.table.column(name).unit for name in _columns_of(one)}
    others = [name for name, own in units.items() if own != unit and (own or one.table.is_empty(name))]
    return replace(one, table=InUnit(one.table, others, unit)) if others else one


def _unit_of(table: Table, column: str) -> str | None:
    for chunk in table.chunks([column], _SAMPLE):
        there = [one for one in chunk[column].tolist() if one]
        if there:
            if all(map(_DATE.match, there)):
                return "days"
            odd = next((one for one in there if not _TIME.match(one)), None)
            if odd is None:
                return "ns" if any(map(_TOO_FINE.search, there)) else "us"
            raise InputError(
                f"convert: {table.name}: expected times to be numbers, or texts such as {_WANTED}, got {odd[:40]!r} in "
                f"{column!r}; write them so"
            )
    return None


def _parsed(texts: Any, unit: str | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return texts in a unit, with those that are null or empty.

    Raises
    ------
    ValueError, pyarrow.ArrowInvalid
        If one is no time, or none of the unit.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
    form = _DATE if unit == "days" else _TIME
    if not pc.all(pc.match_substring_regex(texts, form.pattern), min_count=0).as_py():
        raise ValueError(unit)
    for pattern, instead in _AS_ARROW_HAS_IT:
        texts = pc.replace_substring_regex(texts, pattern, instead)
    if unit == "days":
        numbers = texts.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    else:
        has_zone = pc.match_substring_regex(texts, _IN_ZONE)
        in_zones = pc.if_else(has_zone, texts, None).cast(pa.timestamp(unit, "UTC"))
        others = pc.if_else(has_zone, None, texts).cast(pa.timestamp(unit))
        numbers = pc.coalesce(in_zones.cast(pa.int64()), others.cast(pa.int64()))
    null = np.asarray(numbers.is_null())
    return pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False), null


def _is_time(text: str | None, unit: str | None) -> bool:
    import pyarrow as pa

    try:
        _parsed(pa.array([text], pa.large_string()), unit)
    except (pa.ArrowInvalid, ValueError):
        return False
    return True
