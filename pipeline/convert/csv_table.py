"""Tables in CSV and TSV files, packed by gzip or not: read by pyarrow where it is installed, by Python otherwise."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.files import Paths, RowsOfFiles, fault_of, files_of, stamps_of
from headrace.pipeline.convert.table import Column, Stamp, Table, where_from

#: "int", "float", "bool", "text", or ("vector", length); of ids also "id", integers in their canonical form alone.
Kind = str | tuple[str, int]

_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")

#: Rows by which the types of columns are told.
_SAMPLE = 1000

#: Rows that pyarrow reads at a time fill this many bytes of a file, and it reads 32 times as many ahead; a longer row
#: takes more.
_BLOCK, _LARGEST_BLOCK = 1 << 18, 1 << 26

#: What files raise that are no tables of text.
_DAMAGED = (csv.Error, UnicodeDecodeError, OSError, EOFError, zlib.error)


class CsvTable(Table):
    """A table of one or more files of text: integers, floating point, true and false, texts, and lists as vectors.

    An empty field is null. The first 1,000 rows tell the types of columns; a later row of another type is an error,
    which `types` mends. Ids are integers if each is written as its integer is, without zeros in front, and texts
    otherwise: "010" is not 10. A quoted list such as ``"0.1,0.2"`` is a vector, in all rows of one length.

    Parameters
    ----------
    paths
        A file, a pattern, a folder, or several; see `headrace.pipeline.convert.files.files_of`.
    separator
        Between fields; by default a tab in ``.tsv`` files, and a comma.
    names
        The names of columns, of files without a header.
    types
        By name, "int", "float", "bool", "text" or ("vector", length), where the first rows would tell another one.

    Raises
    ------
    InputError
        If a file is empty, files have different columns, or there is no such column.
    """

    may_have_float_keys = False

    def __init__(
        self,
        paths: Paths,
        *,
        separator: str | None = None,
        names: Sequence[str] | None = None,
        types: Mapping[str, Kind] | None = None,
    ) -> None:
        self._files = files_of(paths)
        self.name = str(self._files[0]) + (f" and {len(self._files) - 1} more" if len(self._files) > 1 else "")
        is_tsv = self._files[0].name.removesuffix(".gz").endswith(".tsv")
        self._separator = separator or ("\t" if is_tsv else ",")
        if len(self._separator) != 1 or self._separator in '"\r\n':
            raise InputError(f"convert: {self.name}: expected a separator of one character, got {self._separator!r}")
        self._has_header = names is None
        self._names = list(names) if names is not None else self._header(self._files[0])
        if len(set(self._names)) < len(self._names):
            raise InputError(f"convert: {self._files[0]}: expected columns of different names, got {self._names}")
        for path in self._files if names is None else ():
            if self._header(path) != self._names:
                raise InputError(f"convert: expected the header {self._names} in {path}, got {self._header(path)}")
        self._rows = RowsOfFiles(self._files)
        sample = [row for _, row in islice(self._plain_rows(), _SAMPLE)]
        # Of quotes and escapes nothing is counted.
        self._row_bytes = sum(len(one.encode()) + 1 for row in sample for one in row) / max(1, len(sample))
        self._sampled = len(sample)
        unknown = [name for name in types or () if name not in self._names]
        if unknown:
            raise InputError(f"convert: {self.name} has no column {unknown[0]!r}; its columns are {self._names}")
        self._kinds = {
            name: (types or {}).get(name) or kind_of_values([row[place] for row in sample])
            for place, name in enumerate(self._names)
        }
        self._given = set(types or ())
        self._is_canonical = {
            name: all(_is_canonical(row[place]) for row in sample if row[place])
            for place, name in enumerate(self._names)
            if self._kinds[name] == "int"
        }
        self.take_kinds(self._kinds)

    def take_kinds(self, kinds: Mapping[str, Kind]) -> None:
        """Read columns as other kinds from now on."""
        self._kinds = dict(kinds)
        self.identity = f"{self._separator!r} {self._has_header} {self._kinds}"
        self.columns = {name: column_of_kind(kind) for name, kind in self._kinds.items()}

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
        start = 0
        for some in self._arrow_chunks(columns, rows) if find_spec("pyarrow") else self._plain_chunks(columns, rows):
            yield {
                name: parsed(some[name], self._kinds[name], partial(where_from, self, start), name) for name in columns
            }
            start += len(some[columns[0]])

    def arrow_chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, Any]]:
        """Yield rows with texts as arrays of pyarrow; `Table.arrow_chunks` documents it."""
        start = 0
        for some in self._arrow_chunks(columns, rows):
            yield {
                name: some[name]
                if self._kinds[name] == "text"
                else parsed(some[name], self._kinds[name], partial(where_from, self, start), name)
                for name in columns
            }
            start += len(some[columns[0]])

    def about_rows(self) -> int | None:
        """Return how many rows files of this size have, if all are like the first ones."""
        if self._sampled < _SAMPLE:
            return self._sampled
        return round(sum(map(_unpacked_bytes, self._files)) / self._row_bytes)

    def load(self) -> None:
        """Load pyarrow, where it is installed."""
        if find_spec("pyarrow"):
            import pyarrow.compute
            import pyarrow.csv  # noqa: F401

    def where(self, row: int) -> str:
        """Return the file, and the row in it as an editor counts lines."""
        return self._rows.where(row, 2 if self._has_header else 1)

    def stamps(self) -> tuple[Stamp, ...]:
        """Return the files as they are now."""
        return stamps_of(self._files)

    def _header(self, path: Path) -> list[str]:
        try:
            with _opened(path) as file:
                header = next(csv.reader(file, delimiter=self._separator), None)
        except _DAMAGED as cause:
            raise InputError(f"convert: expected a header in {path}, but {fault_of(cause)}") from cause
        if not header:
            raise InputError(
                f"convert: expected a header in {path}, got an empty file; pass names= (in TOML names = [...])"
            )
        return header

    def _plain_rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each row with the number of its file."""
        for place, path in enumerate(self._files):
            count = 0
            with _opened(path) as file:
                try:
                    reader = csv.reader(file, delimiter=self._separator, strict=True)
                    if self._has_header:
                        next(reader, None)
                    for row in reader:
                        if len(row) != len(self._names):
                            if not row:  # an empty line, as at the end of a file
                                continue
                            raise InputError(
                                f"convert: {path}, row {reader.line_num}: expected {len(self._names)} columns, got "
                                f"{len(row)}; correct the row"
                            )
                        count += 1
                        yield place, row
                except _DAMAGED as cause:
                    raise InputError(f"convert: {path}, behind row {count}: {fault_of(cause)}") from cause
            self._rows.ended(place, count)

    def _plain_chunks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        places = {name: self._names.index(name) for name in columns}
        waiting = self._plain_rows()
        while some := [row for _, row in islice(waiting, rows)]:
            yield {name: [row[place] for row in some] for name, place in places.items()}

    def _arrow_chunks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        """Yield columns as arrays of texts: values are parsed where their row is known."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        convert = arrow_csv.ConvertOptions(
            include_columns=list(dict.fromkeys(columns)),
            column_types={name: pa.string() for name in columns},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        )
        parse = arrow_csv.ParseOptions(delimiter=self._separator, newlines_in_values=True)
        for place, path in enumerate(self._files):
            count, block, is_read = 0, _BLOCK, False
            while not is_read:
                read = arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=block,
                    column_names=self._names,
                    skip_rows=int(self._has_header),
                    skip_rows_after_names=count,
                )
                try:
                    for batch in arrow_csv.open_csv(path, read, parse, convert):
                        for start in range(0, len(batch), rows):
                            some = batch.slice(start, rows)
                            yield {name: some.column(name) for name in columns}
                        count += len(batch)
                    is_read = True
                except (pa.ArrowException, OSError) as cause:
                    is_read = "Empty CSV" in str(cause)
                    if "straddling" in str(cause) and block < _LARGEST_BLOCK:
                        block *= 4
                    elif not is_read:
                        raise InputError(f"convert: {path}, behind row {count}: {fault_of(cause)}") from cause
            self._rows.ended(place, count)


def _unpacked_bytes(path: Path) -> float:
    """Return the bytes of a file, and of a packed one about those of what is in it."""
    size = path.stat().st_size
    if path.suffix != ".gz":
        return size
    with path.open("rb") as file:
        start = file.read(1 << 20)
    return size * len(zlib.decompressobj(31).decompress(start)) / max(1, len(start))


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def kind_of_values(values: Sequence[str]) -> Kind:
    """Return what the first fields of a column are; floating point if all are null."""
    there = [one for one in values if one]
    if not there or all(map(_is_float, there)):
        return "int" if there and all(map(_is_int, there)) else "float"
    if all(one in (*_TRUE, *_FALSE) for one in there):
        return "bool"
    lists = [one.split(",") for one in there]
    lengths = {len(one) for one in lists}
    if len(lengths) == 1 and lengths != {1} and all(_is_float(part) for one in lists for part in one):
        return ("vector", lengths.pop())
    return "text"


def column_of_kind(kind: Kind) -> Column:
    """Return the column of a kind.

    Raises
    ------
    InputError
        If there is no such kind.
    """
    if isinstance(kind, tuple) and kind[0] == "vector" and isinstance(kind[1], int) and kind[1] > 0:
        return Column(np.dtype(np.float64), (kind[1],))
    dtypes: dict[Any, Any] = {"int": np.int64, "float": np.float64, "bool": bool, "text": object}
    if kind == "id":
        return Column(np.dtype(np.int64))
    if kind not in dtypes:
        raise InputError(f"convert: expected a type of {list(dtypes)} or ('vector', length), got {kind!r}")
    return Column(np.dtype(dtypes[kind]))


def parsed(values: Any, kind: Kind, where: Callable[[int], str], name: str) -> NDArray[Any]:
    """Return fields as an array, masked where some are null.

    Parameters
    ----------
    values
        A list of texts, or an array of pyarrow.
    where
        Returns the place of a row, for errors.

    Raises
    ------
    InputError
        If a field is not of the kind.
    """
    if not isinstance(values, list):
        quick = _by_arrow(values, kind)
        if quick is not None:
            return quick
        values = [one or "" for one in values.to_pylist()]
    if kind == "text":
        return np.array([one or None for one in values], dtype=object)
    if isinstance(kind, tuple):
        return _vectors(values, kind[1], where, name)
    parsers: dict[str, Callable[[str], Any]] = {"int": _as_int, "id": _as_id, "float": _as_float, "bool": _as_bool}
    parse = parsers[kind]
    plain = np.zeros(len(values), column_of_kind(kind).dtype)
    null = np.zeros(len(values), bool)
    for row, one in enumerate(values):
        if not one:
            null[row] = True
            continue
        try:
            plain[row] = parse(one)
        except (ValueError, OverflowError):
            raise InputError(
                f"convert: {where(row)}: expected {_TEXTS[kind]} in {name!r}, got {one[:40]!r}; correct it, or pass "
                f"another type of the column{_OF_IDS.format(name) if kind == 'id' else ''}"
            ) from None
    return np.ma.MaskedArray(plain, null) if null.any() else plain


_TEXTS = {"int": "an integer of 64 bits", "float": "a number", "bool": "true or false"}
_TEXTS["id"] = "an integer of 64 bits, as all ids before and written without zeros in front,"
_OF_IDS = ': of ids that are texts, pass --text-ids, or in TOML types = {{ {} = "text" }}'


def _by_arrow(values: Any, kind: Kind) -> NDArray[Any] | None:
    """Return integers and floating point as pyarrow converts them; None if a field is neither, or of other kinds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind not in ("int", "id", "float"):
        return None
    try:
        numbers = values.cast(pa.float64() if kind == "float" else pa.int64())
    except pa.ArrowException:
        return None
    # Of integers pyarrow reads other forms, too, such as 0x1F.
    if kind != "float" and pc.all(pc.equal(numbers.cast(pa.string()), values)).as_py() is False:
        return None
    if numbers.null_count == 0:
        return np.asarray(numbers.to_numpy(zero_copy_only=False))
    mask = np.asarray(numbers.is_null().to_numpy(zero_copy_only=False))
    return np.ma.MaskedArray(numbers.fill_null(0).to_numpy(zero_copy_only=False), mask)


def _vectors(values: list[str], length: int, where: Callable[[int], str], name: str) -> NDArray[Any]:
    found = np.empty((len(values), length))
    for row, one in enumerate(values):
        parts = one.split(",")
        if len(parts) != length or not all(map(_is_float, parts)):
            raise InputError(
                f"convert: {where(row)}: expected a list of {length} numbers in {name!r}, got {one[:40]!r}; correct it"
            )
        found[row] = [float(part) for part in parts]
    return found


def _is_int(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii()


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def _is_canonical(text: str) -> bool:
    """Whether a text is what Python writes for its integer, of 64 bits."""
    return _is_int(text) and len(text) <= 20 and str(int(text)) == text and -(1 << 63) <= int(text) < 1 << 63


def _as_int(text: str) -> int:
    if not _is_int(text):  # int takes spaces and underscores, too
        raise ValueError(text)
    return int(text)


def _as_id(text: str) -> int:
    if not _is_canonical(text):
        raise ValueError(text)
    return int(text)


def _as_float(text: str) -> float:
    if not _is_float(text):
        raise ValueError(text)
    return float(text)


def _as_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(text)
