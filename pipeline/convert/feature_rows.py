"""Rows of features, labels and times, from the columns of tables to the order of the data set."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.attributes import Attribute, as_labels, missing, nulls
from headrace.pipeline.convert.checked import columns_of
from headrace.pipeline.convert.database import Database
from headrace.pipeline.convert.description import Columns
from headrace.pipeline.convert.item_rows import rows_of_window
from headrace.pipeline.convert.memory import rows_within
from headrace.pipeline.convert.table import LARGEST_WHOLE, Table

Kind = tuple[np.dtype[Any], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The rows of a table of users that a table of DuckDB has."""

    base: Database
    name: str

    def within(self, first: int, count: int) -> NDArray[np.int64]:
        """Return which of some rows these are, from 0."""
        return rows_of_window(self.base, self.name, first, count, ())[0]


def kind_of(tables: Sequence[tuple[Table, Columns]], what: str) -> Kind:
    """Return the dtype and the row shape of a feature that several tables have.

    Raises
    ------
    InputError
        If tables differ in them.
    """
    kinds: dict[Kind, str] = {}
    for table, some in tables:
        columns = [table.column(name) for name in columns_of(some)]
        shape = columns[0].shape if isinstance(some, str) else (len(columns),)
        kinds.setdefault((np.result_type(*(one.dtype for one in columns)), shape), table.name)
    if len(kinds) > 1:
        raise InputError(f"convert: expected {what} of one dtype and shape in all tables, got {kinds}; convert one")
    return next(iter(kinds))


def feature_pieces(
    table: Table,
    columns: Columns,
    kind: Kind,
    *,
    labels: bool,
    kept: KeptRows | None,
    room: int,
    counted: Counter[str] | None = None,
) -> Iterator[NDArray[Any]]:
    """Yield the rows of a feature, or of labels, in the order of the table.

    Parameters
    ----------
    kept
        Which rows stay; None for all.
    counted
        Takes how many labels of rows that stay are ``missing``: NaN, or -100 in integers.

    Raises
    ------
    InputError
        If a feature has a null, with its file and row.
    """
    dtype, shape = kind
    names, row = columns_of(columns), 0
    at_a_time = rows_within(room // 8, 3 * max(1, math.prod(shape)) * dtype.itemsize)
    for chunk in table.chunks(list(names), at_a_time):
        parts = []
        staying: slice | NDArray[Any] = slice(None) if kept is None else kept.within(row, len(chunk[names[0]]))
        for name in names:
            values = chunk[name]
            null = nulls(values, nan=False)
            if labels:
                values = as_labels(values, table, name, row)
                if counted is not None:
                    counted["missing"] += int(missing(values)[staying].sum())
            elif null.any():
                rows = null.reshape(len(null), -1).any(1)
                raise InputError(
                    f"convert: {table.where(row + int(rows.argmax()))}: expected a number in {name!r} for a feature, "
                    "got null; fill it in, or make the column labels, which may be missing"
                )
            plain = np.ma.getdata(values)
            if plain.dtype.kind in "iu" and dtype.kind == "f":
                _refuse_rounding(plain, table, name, row)
            parts.append(plain.astype(dtype, copy=False))
        found = parts[0] if isinstance(columns, str) else np.stack(parts, 1)
        yield found[staying]
        row += len(found)


def _refuse_rounding(values: NDArray[Any], table: Table, name: str, row: int) -> None:
    """Refuse integers that floating point may not have, where columns beside theirs make it the type of all."""
    far = values > LARGEST_WHOLE
    if values.dtype.kind == "i":
        far |= values < -LARGEST_WHOLE
    if far.any():
        at = int(far.argmax())
        raise InputError(
            f"convert: {table.where(row + at)}: expected an integer up to 2**53 in {name!r}, as only floating point "
            f"has the numbers of the columns beside it, got {values[at]}; make it a feature of its own"
        )


def added_pieces(num_rows: int, kind: Kind, *, labels: bool, fill: float | None = None) -> Iterator[NDArray[Any]]:
    """Yield the rows of what no table has: labels are NaN in floating point, -100 in integers, and 0 in others.

    Parameters
    ----------
    fill
        The number in features; None for NaN in floating point, and 0 in others.
    """
    dtype, shape = kind
    if fill is None or labels:
        fill = math.nan if dtype.kind == "f" else -100 if labels and dtype.kind == "i" else 0
    at_a_time = rows_within(1 << 20, max(1, math.prod(shape)) * dtype.itemsize)
    for start in range(0, num_rows, at_a_time):
        yield np.full((min(at_a_time, num_rows - start), *shape), fill, dtype)


def time_pieces(
    table: Table | None, column: str | None, num_rows: int, attribute: Attribute, null_times: str, room: int
) -> Iterator[NDArray[Any]]:
    """Yield the times of the nodes of a type, with the earliest one for what has none.

    Raises
    ------
    InputError
        If a time is null and must not be.
    """
    done = 0
    if table is not None and column is not None:
        for chunk in table.chunks([column], rows_within(room // 8, 32)):
            values = chunk[column]
            null = nulls(values, nan=True)
            plain = np.ma.getdata(values).astype(attribute.dtype)
            if null.any():
                if null_times != "earliest":
                    raise InputError(
                        f"convert: {table.where(done + int(null.argmax()))}: expected a time in {column!r}, got null; "
                        "pass null_times='earliest' (--null-times earliest)"
                    )
                plain[null] = attribute.fill
            yield plain
            done += len(plain)
    if done < num_rows:
        for start in range(done, num_rows, 1 << 17):
            yield np.full(min(1 << 17, num_rows - start), attribute.filled, attribute.dtype)
