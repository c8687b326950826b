"""Tables in Parquet files, read by pyarrow one group of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.arrow_columns import as_numpy, as_type, column_of, common_type, needed_library, texts_of
from headrace.pipeline.convert.files import Paths, RowsOfFiles, files_of, stamps_of
from headrace.pipeline.convert.table import Column, Stamp, Table, where_from

#: Bytes of a column that are read at a time: by default all those of a group of rows would be in memory.
_BUFFER = 1 << 20

#: Rows of a batch that threads decode, column by column; smaller ones are asked for where memory is scarce, of which
#: threads take more.
_ROWS_OF_THREADS = 1 << 19


class ParquetTable(Table):
    """A table of one or more Parquet files.

    Lists of one length are vectors; timestamps are int64 in the unit that the file has; decimals are floating point.
    Files may have a column in types of which one has all values, as int32 and int64. Ids that are unsigned and of 2**63
    or more, as hashes are, become texts.

    Parameters
    ----------
    paths
        A file, a pattern, a folder, or several; see `headrace.pipeline.convert.files.files_of`.

    Raises
    ------
    InputError
        If a file is damaged, or has other columns than the first one, or pyarrow is not installed.
    """

    def __init__(self, paths: Paths) -> None:
        needed_library("pyarrow", "Parquet")
        self._files = files_of(paths)
        self.name = (
            str(self._files[0]) if len(self._files) == 1 else f"{self._files[0]} and {len(self._files) - 1} more"
        )
        counts, schemas = [], []
        for path in self._files:
            with _opened(path) as file:
                counts.append(file.metadata.num_rows)
                schemas.append(file.schema_arrow)
                if sorted(schemas[-1].names) != sorted(schemas[0].names):
                    raise InputError(
                        f"convert: expected the columns of {self._files[0]} in {path}, got {schemas[-1].names}"
                    )
        self.num_rows = sum(counts)
        self._rows = RowsOfFiles(self._files, counts)
        self._types = {name: common_type([one.field(name).type for one in schemas]) for name in schemas[0].names}
        self._unread: dict[str, str] = {}
        self.columns = {}
        for name, kind in self._types.items():
            column = None if kind is None else column_of(kind, partial(self._first_row, name))
            if column is None:
                self._unread[name] = " and ".join(dict.fromkeys(str(one.field(name).type) for one in schemas))
            self.columns[name] = column or Column(np.dtype(object))

    def column(self, name: str) -> Column:
        """Return what a column holds; `Table.column` documents it."""
        if name in self._unread:
            raise InputError(
                f"convert: {self.name}: expected numbers, texts, times or lists of numbers in {name!r}, got "
                f"{self._unread[name]}; write the column as one of these, of one type in all files"
            )
        return super().column(name)

    def is_empty(self, column: str) -> bool:
        """Whether no row has a value in a column; `Table.is_empty` documents it."""
        from pyarrow import types

        return super().is_empty(column) or types.is_null(self._types[column])

    def id_kinds(self, column: str) -> frozenset[str]:
        """Return what ids in a column may be; `Table.id_kinds` documents it."""
        if self.column(column).dtype != np.uint64:
            return super().id_kinds(column)
        return frozenset(["texts"] if self._largest(column) >= 1 << 63 else ["integers", "texts"])

    def with_ids(self, column: str, kind: str) -> ParquetTable:
        """Return the table with a column as ids of a kind; `Table.with_ids` documents it."""
        from pyarrow import large_string

        if kind != "texts" or self.column(column).dtype != np.uint64:
            return self
        other = copy(self)
        other.take_texts(column, large_string())
        return other

    def take_texts(self, column: str, kind: Any) -> None:
        """Read a column as texts of a type from now on."""
        self._types = {**self._types, column: kind}
        self.columns = {**self.columns, column: Column(np.dtype(object))}
        self.identity = f"{self.identity} {column} as texts"

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield rows; `Table.chunks` documents it."""
        for where, batch in self._columns(columns, rows):
            yield {name: as_numpy(values, self.columns[name], where, name) for name, values in batch.items()}

    def arrow_chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, Any]]:
        """Yield rows with texts as arrays of pyarrow; `Table.arrow_chunks` documents it."""
        for where, batch in self._columns(columns, rows):
            yield {
                name: texts_of(values, where, name)
                if self.columns[name].is_text
                else as_numpy(values, self.columns[name], where, name)
                for name, values in batch.items()
            }

    def where(self, row: int) -> str:
        """Return the file, and the row in it, from 0."""
        return self._rows.where(row)

    def file_of(self, row: int) -> Path:
        """Return the file that a row is in, of rows that were read."""
        return self._rows.file_of(row)

    def stamps(self) -> tuple[Stamp, ...]:
        """Return the files as they are now."""
        return stamps_of(self._files)

    def _columns(self, columns: Sequence[str], rows: int) -> Iterator[tuple[Callable[[int], str], dict[str, Any]]]:
        """Yield what tells the place of a row of each batch, and its columns, in the types of all files."""
        start = 0
        for batch in self._batches(columns, rows):
            where = partial(where_from, self, start)
            yield where, {name: as_type(batch.column(name), self._types[name], where, name) for name in columns}
            start += len(batch)

    def _batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        for path in self._files:
            with _opened(path) as file:
                try:
                    chosen, by_threads = list(dict.fromkeys(columns)), rows >= _ROWS_OF_THREADS
                    yield from file.iter_batches(rows, columns=chosen, use_threads=by_threads)
                except OSError as cause:
                    raise InputError(f"convert: {path} is damaged ({cause}); copy it again") from cause

    def _largest(self, name: str) -> int:
        """Return the largest integer of a column, by what files state of it if they do."""
        import pyarrow.compute as pc

        largest: list[Any] = []
        for path in self._files:
            with _opened(path) as file:
                metadata = file.metadata
            groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
            columns = [group.column(place) for group in groups for place in range(metadata.num_columns)]
            of_name = [one.statistics for one in columns if one.path_in_schema == name]
            largest += [one.max if one is not None and one.has_min_max else None for one in of_name]
        if None in largest:
            largest = [pc.max(batch.column(name)).as_py() or 0 for batch in self._batches([name], 1 << 16)]
        return int(max(largest, default=0))

    def _first_row(self, name: str) -> Any:
        for batch in self._batches([name], 1):
            return batch.column(name)[0].as_py()
        return []


def _opened(path: Any) -> Any:
    from pyarrow import ArrowException, parquet

    try:
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
    except (ArrowException, OSError) as cause:
        raise InputError(
            f"convert: expected a Parquet file at {path}, got a damaged one ({cause}); copy it again"
        ) from (cause)
