"""Attributes of all types as one array each: their dtypes, and what stands where a type or a row has none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.table import Table, first_text
from headrace.pipeline.data.type_attributes import ALWAYS, value_without


@dataclass(frozen=True)
class Attribute:
    """An attribute of all edges, or of all nodes.

    Parameters
    ----------
    dtype
        Of all types together.
    fill
        The value of what has none; None if everything has one.
    is_time
        Whether it is a time, in which null has a rule of its own.
    """

    dtype: np.dtype[Any]
    fill: float | int | None
    is_time: bool

    @property
    def filled(self) -> float | int:
        """The value of what has none, where some have none."""
        assert self.fill is not None
        return self.fill


def joined_attributes(
    of_tables: Sequence[tuple[Table | None, Mapping[str, str]]],
    *,
    nulls_are_earliest: bool,
    what: str,
    some_added: bool = False,
) -> dict[str, Attribute]:
    """Return the attributes of all tables, as `Graph.from_coo` joins those of types.

    Parameters
    ----------
    of_tables
        Of each table the columns of its attributes by name; None where there are no rows.
    nulls_are_earliest
        Whether a null among times becomes the earliest time, for which times are widened.
    what
        "edge" or "node".
    some_added
        Whether there are others than those of tables: their times are the earliest, and all else of them is 1.

    Raises
    ------
    InputError
        If columns of one attribute differ in dtype, are no numbers, or some tables lack one that has no default.
    """
    names = dict.fromkeys(name for _, columns in of_tables for name in columns)
    return {name: _joined(name, of_tables, nulls_are_earliest, what, some_added) for name in names}


def _joined(
    name: str,
    of_tables: Sequence[tuple[Table | None, Mapping[str, str]]],
    nulls_are_earliest: bool,
    what: str,
    some_added: bool,
) -> Attribute:
    found, empty = {}, set()
    for table, columns in of_tables:
        if table is not None and name in columns:
            found[f"{table.name} {columns[name]}"] = table.column(columns[name])
            empty |= {f"{table.name} {columns[name]}"} if table.is_empty(columns[name]) else set()
    units = {column: one.unit for column, one in found.items()}
    if len(set(units.values())) > 1:
        raise InputError(
            f"convert: expected {what} attribute {name!r} in one unit, got {units}, where None is a plain number; "
            "convert one of them"
        )
    if name == "weight" and any(units.values()):
        raise InputError(f"convert: expected weights, got times in {next(iter(found))}; name a column of numbers")
    default = value_without(name)
    there = {column: one.dtype for column, one in found.items()}
    lacking = len(there) < len(of_tables)
    odd = {column: dtype for column, dtype in there.items() if dtype.kind not in "biuf"}
    if odd:
        texts = [(one, of[name]) for one, of in of_tables if one and name in of and one.column(of[name]).is_text]
        came = first_text(*texts[0]) if texts else str({column: str(dtype) for column, dtype in odd.items()})
        # Weights are drawn by and times compared: numbers of texts are no remedy for these.
        advice = "make a column of texts labels, which numbers them" if default is None else "name a column of numbers"
        raise InputError(
            f"convert: expected numbers in the columns of {what} attribute {name!r}, got {came}; correct it, or "
            f"{advice}"
        )
    if lacking and default is None:
        raise InputError(
            f"convert: expected {what} attribute {name!r} of all tables, got it in {list(there)} alone; add the column "
            "to the others, or make it a feature"
        )
    if some_added:
        lacking, default = True, 1 if default is None else default
    dtypes = {dtype for column, dtype in there.items() if column not in empty} or set(there.values())
    if default == ALWAYS:
        widen = len(dtypes) > 1 or ((lacking or nulls_are_earliest) and not any(one.kind == "f" for one in dtypes))
        if widen:
            dtypes = {np.dtype(np.float64 if any(one.kind == "f" for one in dtypes) else np.int64)}
    if len(dtypes) > 1:
        raise InputError(f"convert: expected {what} attribute {name!r} of one dtype, got {there}; convert one of them")
    (dtype,) = dtypes
    fill: float | int | None = default if lacking or (default == ALWAYS and nulls_are_earliest) else None
    if fill == ALWAYS and dtype.kind != "f":
        fill = int(np.iinfo(dtype).min)
    return Attribute(dtype, fill, default == ALWAYS)


def nulls(values: NDArray[Any], *, nan: bool) -> NDArray[np.bool_]:
    """Return which values are null, or NaN if that counts as null too."""
    null: NDArray[np.bool_] = np.ma.getmaskarray(values)
    if nan and values.dtype.kind == "f":
        null = null | np.isnan(np.ma.getdata(values))
    return null


def missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows of labels, as `as_labels` returns them, have a label that is missing: bool[n]."""
    if labels.dtype.kind not in "fi":
        return np.zeros(len(labels), bool)
    ignored = np.isnan(labels) if labels.dtype.kind == "f" else labels == -100
    found: NDArray[np.bool_] = ignored.any(tuple(range(1, labels.ndim)))
    return found


def as_labels(values: NDArray[Any], table: Table, column: str, start: int) -> NDArray[Any]:
    """Return labels, of which the first is in row `start`, with NaN, or -100 in integers, where there is none.

    Losses of torch ignore these.

    Raises
    ------
    InputError
        If some are null and the dtype has neither.
    """
    null = np.ma.getmaskarray(values)
    plain = np.ma.getdata(values)
    if not null.any():
        return plain
    if plain.dtype.kind in "bu":
        raise InputError(
            f"convert: {table.where(start + int(null.argmax()))}: expected labels of floating point or signed integers "
            f"in {column!r}, as this one is null, got {plain.dtype}; convert the column, or fill it in"
        )
    return np.where(null, plain.dtype.type(math.nan if plain.dtype.kind == "f" else -100), plain)
