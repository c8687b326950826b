"""Tables in Parquet files, read by pyarrow one group of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.arrow_columns import as_numpy, column_of, needed_library, texts_of
from headrace.pipeline.convert.files import Paths, RowsOfFiles, files_of, stamps_of
from headrace.pipeline.convert.table import Stamp, Table, where_from

#: Bytes of a column that are read at a time: by default all those of a group of rows would be in memory.
_BUFFER = 1 << 20


class ParquetTable(Table):
    """A table of one or more Parquet files.

    Lists of one length are vectors; timestamps are int64 in the unit that the file has.

    Parameters
    ----------
    paths
        A file, a pattern, a folder, or several; see `headrace.pipeline.convert.files.files_of`.

    Raises
    ------
    InputError
        If a file is damaged or has other columns than the first one, or pyarrow is not installed.
    """

    def __init__(self, paths: Paths) -> None:
        needed_library("pyarrow", "Parquet")
        self._files = files_of(paths)
        self.name = (
            str(self._files[0]) if len(self._files) == 1 else f"{self._files[0]} and {len(self._files) - 1} more"
        )
        counts, first = [], None
        for path in self._files:
            with _opened(path) as file:
                counts.append(file.metadata.num_rows)
                schema = file.schema_arrow
                first = schema if first is None else first
                if [(one.name, one.type) for one in schema] != [(one.name, one.type) for one in first]:
                    raise InputError(
                        f"convert: expected the columns of {self._files[0]} in {path}, got {schema.names}; or their "
                        "types differ"
                    )
        assert first is not None  # there are files
        self.num_rows = sum(counts)
        self._rows = RowsOfFiles(self._files, counts)
        self._types = {one.name: one.type for one in first}
        self.columns = {}
        for name in first.names:
            column = column_of(self._types[name], partial(self._first_row, name))
            if column is not None:
                self.columns[name] = column

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield rows; `Table.chunks` documents it."""
        start = 0
        for batch in self._batches(columns, rows):
            yield {
                name: as_numpy(batch.column(name), self.columns[name], partial(where_from, self, start), name)
                for name in columns
            }
            start += len(batch)

    def arrow_chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, Any]]:
        """Yield rows with texts as arrays of pyarrow; `Table.arrow_chunks` documents it."""
        start = 0
        for batch in self._batches(columns, rows):
            yield {
                name: texts_of(batch.column(name))
                if self.columns[name].is_text
                else as_numpy(batch.column(name), self.columns[name], partial(where_from, self, start), name)
                for name in columns
            }
            start += len(batch)

    def where(self, row: int) -> str:
        """Return the file, and the row in it, from 0."""
        return self._rows.where(row)

    def stamps(self) -> tuple[Stamp, ...]:
        """Return the files as they are now."""
        return stamps_of(self._files)

    def _batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        for path in self._files:
            with _opened(path) as file:
                try:
                    yield from file.iter_batches(rows, columns=list(dict.fromkeys(columns)), use_threads=False)
                except OSError as cause:
                    raise InputError(f"convert: {path} is damaged ({cause}); copy it again") from cause

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
