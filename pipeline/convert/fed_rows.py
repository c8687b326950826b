"""Columns of tables as batches that DuckDB is fed, with the number of each row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.database import Database
from headrace.pipeline.convert.memory import rows_within
from headrace.pipeline.convert.table import LARGEST_WHOLE, Table, as_int64

#: Bytes of memory that a row takes on its way, beside its columns.
_ROW_BYTES = 64

#: Bytes of DuckDB's memory for each row that a statement groups, and rows that one groups at most: with more it parts
#: its groups into more pieces.
_GROUPED_BYTES, _MOST_GROUPED = 8, 1 << 25


def feed_rows(
    base: Database,
    table: Table,
    columns: Mapping[str, str],
    room: int,
    advance: Callable[[int], Any],
    *,
    keys: Collection[str] = (),
) -> AbstractContextManager[None]:
    """Feed columns of a table, under the names that `columns` has for them, and the column ``row`` from 0.

    Parameters
    ----------
    keys
        Those of the names whose columns are ids: integers of 64 bits, or texts.
    """
    names = list(dict.fromkeys(columns.values()))

    def batches() -> Iterator[Sequence[Any]]:
        import pyarrow as pa

        start = 0
        for chunk in table.arrow_chunks(names, rows_within(room // 16, _ROW_BYTES + 32 * len(names))):
            size = len(chunk[names[0]])
            some = [
                _keys(table, column, chunk[column], start) if name in keys else as_arrow(table, column, chunk[column])
                for name, column in columns.items()
            ]
            yield [pa.array(np.arange(start, start + size)), *some]
            start += size
            advance(size)

    kinds = [key_type(table, column) if name in keys else arrow_type(table, column) for name, column in columns.items()]
    return base.feed(["row", *columns], [_int64(), *kinds], batches())


def feed_keys(
    base: Database, table: Table, columns: Sequence[str], room: int, advance: Callable[[int], Any], statement: str
) -> None:
    """Feed the ids in some columns of a table below each other, as ``key``, to a statement that groups them.

    It is run for as many rows at a time as memory allows: DuckDB spills groups, but of each piece that it has spilled
    it keeps some bytes, which fill its memory in the end.
    """

    def batches() -> Iterator[Sequence[Any]]:
        start = 0
        for chunk in table.arrow_chunks(columns, rows_within(room // 16, _ROW_BYTES + 32 * len(columns))):
            size = len(chunk[columns[0]])
            yield from ([_keys(table, name, chunk[name], start)] for name in columns)
            start += size
            advance(size)

    def up_to_most(first: Sequence[Any]) -> Iterator[Sequence[Any]]:
        yield first
        size = len(first[0])
        while size < most and (more := next(every, None)) is not None:
            yield more
            size += len(more[0])

    every, most = batches(), min(base.limit // _GROUPED_BYTES, _MOST_GROUPED)
    while (first := next(every, None)) is not None:
        with base.feed(["key"], [key_type(table, columns[0])], up_to_most(first)):
            base.execute(statement)


def key_type(table: Table, column: str) -> Any:
    """Return the type of pyarrow in which ids are fed."""
    import pyarrow as pa

    return pa.large_string() if table.column(column).is_text else pa.int64()


def arrow_type(table: Table, column: str) -> Any:
    """Return the type of pyarrow in which a column is fed: of texts, or of one number."""
    import pyarrow as pa

    dtype = table.column(column).dtype
    if table.column(column).is_text:
        return pa.large_string()
    return pa.from_numpy_dtype(np.float32 if dtype == np.float16 else dtype)


def as_arrow(table: Table, column: str, values: Any) -> Any:
    """Return a column of a chunk as an array of pyarrow of its `arrow_type`.

    Raises
    ------
    InputError
        If a column of texts holds others.
    """
    import pyarrow as pa

    kind = arrow_type(table, column)
    try:
        if isinstance(values, pa.Array):
            return values if values.type == kind else values.cast(kind)
        if values.dtype == object:
            return pa.array(values, kind, from_pandas=True)
    except (pa.ArrowException, UnicodeEncodeError) as cause:
        raise InputError(f"convert: {table.name}: expected texts in {column!r}, got others ({cause})") from cause
    return _numbers(values, kind)


def _keys(table: Table, column: str, values: Any, start: int) -> Any:
    """Return ids, of which the first is in row `start`: texts, or integers of 64 bits."""
    import pyarrow as pa

    if table.column(column).is_text:
        return as_arrow(table, column, values)
    return _numbers(integer_keys(table, column, values, start), pa.int64())


def integer_keys(table: Table, column: str, values: Any, start: int) -> NDArray[np.int64]:
    """Return ids that are integers, masked where null, of which the first is in row `start`.

    Files of binary numbers may have them in floating point, as pandas writes integers beside null: they are taken
    where each is whole, and NaN is null.

    Raises
    ------
    InputError
        If they are no integers, or too large; with the row.
    """
    plain, null = np.ma.getdata(values), np.ma.getmaskarray(values)
    if plain.dtype.kind in "iu":
        return np.ma.MaskedArray(as_int64(plain, column, table.where, start), null)
    if plain.dtype.kind != "f" or not table.states_dtypes:
        of_text = (
            f"write each as 1, not as 1.0 or with a space in front; of CSV pass --text-ids (in TOML: types = "
            f'{{ {column} = "text" }}) for ids that are texts'
        )
        raise InputError(
            f"convert: {table.name}: expected integers in {column!r}, got {plain.dtype}; "
            f"{of_text if plain.dtype.kind == 'f' else 'convert them'}"
        )
    null = null | np.isnan(plain)
    whole = np.where(null, 0, plain)
    odd = (whole != np.floor(whole)) | (np.abs(whole) > LARGEST_WHOLE)
    if odd.any():
        row = int(odd.argmax())
        raise InputError(
            f"convert: {table.where(start + row)}: expected integers in {column!r}, got {plain.dtype} {plain[row]}; "
            "write them as integers, with null where there is none: column.astype('Int64') in pandas"
        )
    return np.ma.MaskedArray(whole.astype(np.int64), null)


def _numbers(values: Any, kind: Any) -> Any:
    import pyarrow as pa

    plain = np.ma.getdata(values)
    if plain.dtype == np.float16:
        plain = plain.astype(np.float32)
    null = np.ma.getmaskarray(values)
    return pa.array(np.ascontiguousarray(plain), kind, mask=null if null.any() else None)


def _int64() -> Any:
    import pyarrow as pa

    return pa.int64()
