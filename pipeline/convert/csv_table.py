"""Tables in files of text: CSV, TSV and their kin, packed or not."""

from __future__ import annotations

import csv
import io
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.arrow_columns import needed_library
from headrace.pipeline.convert.csv_text import UNIT, CsvText, packing_of, unpacked_name
from headrace.pipeline.convert.csv_values import Kind, column_of_kind, is_canonical, kind_of_values, num_parts, parsed
from headrace.pipeline.convert.files import Paths, RowsOfFiles, fault_of, files_of, stamps_of
from headrace.pipeline.convert.table import Column, Stamp, Table, where_from

#: Rows by which the types of columns are told.
_SAMPLE = 1000

#: Rows that pyarrow reads at a time fill this many bytes of a file; a longer row takes more.
_BLOCK, _LARGEST_BLOCK = 1 << 20, 1 << 26

#: Characters of a field: Python's reader stops at 131,072 by default, which a long list of numbers has.
_LONGEST_FIELD = 1 << 30

#: What files raise that are no tables of text; errors of pyarrow are among them.
_DAMAGED = (csv.Error, OSError, ValueError)


class CsvTable(Table):
    """A table of one or more files of text: integers, floating point, true and false, texts, and lists as vectors.

    An empty field without quotes is null; with quotes it is the text without characters, and null in other columns. The
    first 1,000 rows tell the types of columns; a later row of another type is an error, which `types` mends. Ids are
    integers if each is written as its integer is, without zeros in front, and texts otherwise: "010" is not 10. A list
    such as ``"0.1,0.2"``, ``[0.1 0.2]`` or ``0.1;0.2`` is a vector, in all rows of one length.

    Parameters
    ----------
    paths
        A file, a pattern, a folder, or several; see `headrace.pipeline.convert.files.files_of`.
    separator
        Between fields; by default a tab in ``.tsv`` files, and a comma. With several characters there are no quotes.
    names
        The names of columns, of files without a header.
    types
        By name, "int", "float", "bool", "text" or ("vector", length), where the first rows would tell another one.
    comment
        What lines begin with that are no rows.
    skip
        Lines before the header, or before the first row of files without one.
    null_values
        Texts that are null, beside the empty one.
    escape
        A character before a separator, a quote or itself that makes it a part of the field.

    Raises
    ------
    InputError
        If a file is empty, files have different columns, or there is no such column.
    """

    states_dtypes = False

    def __init__(
        self,
        paths: Paths,
        *,
        separator: str | None = None,
        names: Sequence[str] | None = None,
        types: Mapping[str, Kind] | None = None,
        comment: str | None = None,
        skip: int = 0,
        null_values: Sequence[str] = (),
        escape: str | None = None,
    ) -> None:
        needed_library("pyarrow", "CSV")
        self._files = files_of(paths)
        self.name = str(self._files[0]) + (f" and {len(self._files) - 1} more" if len(self._files) > 1 else "")
        self._separator = separator or ("\t" if unpacked_name(self._files[0]).endswith(".tsv") else ",")
        self._is_long = len(self._separator.encode()) > 1
        if any(one in '"\r\n' for one in self._separator):
            raise InputError(f"convert: {self.name}: expected a separator without quotes, got {self._separator!r}")
        if escape and (self._is_long or not escape.isascii() or escape in (self._separator, '"')):
            raise InputError(
                f"convert: {self.name}: expected escape to be a character of ASCII beside a separator of one, got "
                f"{escape!r} beside {self._separator!r}; write the file with quotes"
            )
        if comment == self._separator:
            raise InputError(
                f"convert: {self.name}: expected comment to differ from separator, got {comment!r} for both"
            )
        self._comment, self._skip, self._escape = comment, skip, escape
        self._null_values = ["", *null_values]
        self._has_header = names is None
        #: The lines up to the rows of each file.
        self._lines_before = dict.fromkeys(self._files, skip)
        #: The columns of each file, in its own order.
        self._columns_of = {path: self._header(path) if names is None else list(names) for path in self._files}
        self._names = self._columns_of[self._files[0]]
        if len(set(self._names)) < len(self._names):
            raise InputError(f"convert: {self._files[0]}: expected columns of different names, got {self._names}")
        for path, own in self._columns_of.items():
            if sorted(own) != sorted(self._names):
                raise InputError(f"convert: expected the columns {self._names} in {path}, got {own}")
        self._rows = RowsOfFiles(self._files)
        self._read_sample(types or {})
        self.take_kinds(self._kinds)

    def take_kinds(self, kinds: Mapping[str, Kind]) -> None:
        """Read columns as other kinds from now on."""
        self._kinds = dict(kinds)
        options = (self._comment, self._skip, self._null_values, self._escape)
        self.identity = f"{self._separator!r} {self._has_header} {options} {self._kinds}"
        self.columns = {name: column_of_kind(kind) for name, kind in self._kinds.items()}

    def take_lists(self) -> None:
        """Read columns of fields such as ``"1,2"``, which may be numbers or lists, as lists from now on."""
        self.take_kinds({**self._kinds, **{name: ("vector", num_parts(one)) for name, one in self._unclear.items()}})
        self._unclear.clear()

    def column(self, name: str) -> Column:
        """Return what a column holds; `Table.column` documents it."""
        if self._kinds.get(name) == "unclear":
            raise InputError(
                f"convert: {self.name}: expected numbers or lists of numbers in {name!r}, got {self._unclear[name]!r}, "
                f'which may be either; write a point for the comma, or pass types = {{ {name} = ["vector", 2] }} (TOML)'
            )
        return super().column(name)

    def is_empty(self, column: str) -> bool:
        """Whether no row has a value in a column; `Table.is_empty` documents it."""
        self.column(column)
        if column not in self._are_null or self._sampled < _SAMPLE:
            return column in self._are_null
        if column not in self._are_empty:
            chunks = (some[column] for _, some in self._texts([column], 1 << 16))
            self._are_empty[column] = all(one.null_count == len(one) for one in chunks)
        return self._are_empty[column]

    def id_kinds(self, column: str) -> frozenset[str]:
        """Return what ids in a column may be; `Table.id_kinds` documents it."""
        if self.column(column).is_text or column in self._given or self._kinds[column] not in ("int", "id"):
            return super().id_kinds(column)
        return frozenset(["integers", "texts"] if self._is_canonical[column] else ["texts"])

    def with_ids(self, column: str, kind: str) -> CsvTable:
        """Return the table with a column as ids of a kind; `Table.with_ids` documents it."""
        if column in self._given or self._kinds[column] not in ("int", "id"):
            return self
        made = copy(self)
        made.take_kinds({**self._kinds, column: "text" if kind == "texts" else "id"})
        return made

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield rows; `Table.chunks` documents it."""
        for start, some in self._texts(columns, rows):
            yield {name: self._parsed(name, some[name], start) for name in columns}

    def arrow_chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, Any]]:
        """Yield rows with texts as arrays of pyarrow; `Table.arrow_chunks` documents it."""
        for start, some in self._texts(columns, rows):
            yield {
                name: some[name] if self._kinds[name] == "text" else self._parsed(name, some[name], start)
                for name in columns
            }

    def about_rows(self) -> int | None:
        """Return how many rows files of this size have, if all are like the first ones."""
        if self._sampled < _SAMPLE:
            return self._sampled
        return round(self._sampled * sum(one.stat().st_size for one in self._files) / max(1.0, self._sample_bytes))

    def load(self) -> None:
        """Load pyarrow."""
        import pyarrow.compute
        import pyarrow.csv  # noqa: F401

    def where(self, row: int) -> str:
        """Return the file, and the line at which the row begins, as an editor counts lines."""
        path, before = self._rows.place_of(row)
        with closing(self._numbered_rows(path)) as rows:
            at_least = before + 1 + self._lines_before[path]
            line, fields = next(islice(rows, before + self._has_header, None), (at_least, []))
        ends = sum(one.replace("\r\n", "\n").replace("\r", "\n").count("\n") for one in fields)
        return f"{path}, row {line - ends}"

    def file_of(self, row: int) -> Path:
        """Return the file that a row is in, of rows that were read."""
        return self._rows.file_of(row)

    def stamps(self) -> tuple[Stamp, ...]:
        """Return the files as they are now."""
        return stamps_of(self._files)

    @property
    def _dialect(self) -> dict[str, Any]:
        """How Python's reader reads the same fields."""
        quoting = {"quoting": csv.QUOTE_NONE} if self._is_long else {}
        return {
            "delimiter": UNIT if self._is_long else self._separator,
            "escapechar": self._escape,
            "strict": True,
            **quoting,
        }

    def _opened(self, path: Path) -> CsvText:
        return CsvText(path, self._separator, self._comment)

    def _plain_rows(self, path: Path) -> Iterator[list[str]]:
        """Yield the rows of a file, the header among them, as Python reads them."""
        return (row for _, row in self._numbered_rows(path))

    def _numbered_rows(self, path: Path) -> Generator[tuple[int, list[str]], None, None]:
        """Yield the rows of a file, the header among them, as Python reads them, with the line at which each ends.

        Raises
        ------
        InputError
            If one has another number of columns than others, or is malformed.
        """
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
        with closing(self._opened(path)) as stream:
            text = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", newline="")
            reader, count = csv.reader(text, **self._dialect), 0
            try:
                for _ in range(self._skip):
                    next(text, None)
                width, empty = None if self._has_header else len(self._names), None
                for row in reader:
                    line = stream.line_of(self._skip + reader.line_num)
                    if not row:  # an empty line, as at the end of a file
                        empty = line
                        continue
                    if empty is not None and width == 1:
                        raise InputError(  # noqa: TRY301 - it goes on as it is
                            f"convert: {path}, row {empty}: expected a value, got an empty line; remove it, or write "
                            'two quotes, "", for none'
                        )
                    width = len(row) if width is None else width
                    if len(row) != width:
                        raise InputError(  # noqa: TRY301 - it goes on as it is
                            f"convert: {path}, row {line}: expected {width} columns, got {len(row)}; correct the row"
                        )
                    if self._has_header and not count:
                        self._lines_before[path] = self._skip + reader.line_num
                    yield line, row
                    count += 1
            except InputError:
                raise
            except _DAMAGED as cause:
                at = stream.line_of(self._skip + reader.line_num)
                raise InputError(f"convert: {path}, row {at}: {fault_of(cause)}") from cause

    def _header(self, path: Path) -> list[str]:
        header = next(self._plain_rows(path), None)
        if not header:
            raise InputError(
                f"convert: expected a header in {path}, got an empty file; pass names= (in TOML names = [...])"
            )
        return header

    def _read_sample(self, types: Mapping[str, Kind]) -> None:
        """Tell the kinds of columns by the first rows."""
        sample: list[list[str]] = []
        self._sample_bytes = 0.0
        for path in self._files:
            rows = self._plain_rows(path)
            some = list(islice(rows, self._has_header, _SAMPLE - len(sample) + self._has_header))
            places = list(map(self._columns_of[path].index, self._names))
            sample += [[row[place] for place in places] for row in some]
            # Of quotes and escapes nothing is counted.
            size = sum(len(field.encode()) + 1 for row in some for field in row)
            self._sample_bytes += size / (_ratio(path) if packing_of(path) else 1)
            if len(sample) >= _SAMPLE:
                break
        self._sampled = len(sample)
        unknown = [name for name in types if name not in self._names]
        if unknown:
            raise InputError(f"convert: {self.name} has no column {unknown[0]!r}; its columns are {self._names}")
        fields = {
            name: ["" if row[place] in self._null_values else row[place] for row in sample]
            for place, name in enumerate(self._names)
        }
        self._kinds = {name: types.get(name) or kind_of_values(some) for name, some in fields.items()}
        self._unclear: dict[str, str] = {
            name: next(filter(None, fields[name])) for name, kind in self._kinds.items() if kind == "unclear"
        }
        self._given = set(types)
        self._are_empty: dict[str, bool] = {}
        self._are_null = {name for name, some in fields.items() if name not in types and not any(some)}
        self._is_canonical = {
            name: all(map(is_canonical, filter(None, fields[name])))
            for name, kind in self._kinds.items()
            if kind == "int"
        }

    def _parsed(self, name: str, values: Any, start: int) -> NDArray[Any]:
        return parsed(values, self._kinds[name], partial(where_from, self, start), name)

    def _texts(self, columns: Sequence[str], rows: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the first row of each chunk, and columns as arrays of texts: values are parsed where rows are known."""
        first = 0
        for place, path in enumerate(self._files):
            start = first
            for batch in self._batches(path, list(dict.fromkeys(columns))):
                for offset in range(0, len(batch), rows):
                    some = batch.slice(offset, rows)
                    yield first, {name: some.column(name) for name in columns}
                    first += len(some)
            self._rows.ended(place, first - start)

    def _batches(self, path: Path, columns: Sequence[str]) -> Iterator[Any]:
        """Yield columns of a file as pyarrow reads them.

        Raises
        ------
        InputError
            If a row is malformed, with its number where pyarrow or Python tells it.
        """
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        convert = arrow_csv.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(columns, pa.string()),
            null_values=self._null_values,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = arrow_csv.ParseOptions(
            delimiter=UNIT if self._is_long else self._separator,
            quote_char=False if self._is_long else '"',
            escape_char=self._escape or False,
            newlines_in_values=True,
        )
        count, block = 0, _BLOCK
        while True:
            read = arrow_csv.ReadOptions(
                use_threads=False,
                block_size=block,
                column_names=self._columns_of[path],
                skip_rows=self._lines_before[path],
                skip_rows_after_names=count,
            )
            try:
                with closing(self._opened(path)) as stream:
                    for batch in arrow_csv.open_csv(
                        pa.PythonFile(io.BufferedReader(stream), "r"), read, parse, convert
                    ):
                        yield batch
                        count += len(batch)
                    self._check_quotes(path, stream, count)
                    return
            except (pa.ArrowException, OSError) as cause:
                is_header_alone = self._has_header and count == 0 and "Could not skip initial" in str(cause)
                if "Empty CSV" in str(cause) or is_header_alone:
                    return
                if "straddling" in str(cause) and block < _LARGEST_BLOCK:
                    block *= 4
                    continue
                self._find_fault(path, count)
                raise InputError(f"convert: {path}, behind row {count}: {fault_of(cause)}") from cause

    def _check_quotes(self, path: Path, text: CsvText, count: int) -> None:
        """Refuse a file in which a quote that is not closed may have swallowed rows.

        Where each row is a line, none has; else Python's strict reader reads the file, too, and must find as many rows.
        """
        lines = text.num_lines - self._lines_before[path]
        is_plain = self._is_long or not text.num_quotes
        if (is_plain and len(self._names) > 1) or (count == lines and text.num_quotes % 2 == 0):
            return
        rows = sum(1 for _ in self._plain_rows(path)) - self._has_header
        if rows != count:
            raise InputError(f"convert: {path}: expected {rows} rows, got {count}; is a quote not closed?")

    def _find_fault(self, path: Path, count: int) -> None:
        """Name the row of a fault, if Python's reader finds it, too."""
        for _ in islice(self._plain_rows(path), count + 2 * _SAMPLE):
            pass


def _ratio(path: Path) -> float:
    """Return how many bytes the first part of a packed file has for each one of it."""
    size = 0
    try:
        with closing(CsvText(path, ",", None)) as text:
            while size < 1 << 22 and (block := text.read(1 << 18)):
                size += len(block)
            return max(1, size) / max(1.0, text.share_read() * path.stat().st_size)
    except OSError as cause:
        raise InputError(f"convert: {path} is damaged ({cause}); copy it again") from cause
