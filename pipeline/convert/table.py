"""Tables: named columns whose rows are read in chunks, in the order of the files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.ops.forks import cached_property

#: The largest integer in floating point whose neighbours are integers of 64 bits, too.
LARGEST_WHOLE = 1 << 53

#: A file, its bytes, and when it was last written, in nanoseconds.
Stamp = tuple[str, int, int]


@dataclass(frozen=True)
class Column:
    """What a column holds.

    Parameters
    ----------
    dtype
        Of one number; ``object`` for texts.
    shape
        Of one row: ``()`` for a number or a text, ``(k,)`` for a vector.
    unit
        What 1 means, of times whose file states it: "s", "ms", "us", "ns" or "days".
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    unit: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether rows are texts."""
        return self.dtype == object


class Table(ABC):
    """Rows with named columns; a format of files is a subclass.

    Attributes
    ----------
    name
        What errors call it: usually the path.
    columns
        The columns by name, in the order of the file.
    num_rows
        How many rows there are; None if only reading tells.
    identity
        What else decides the rows, beside names and files: a conversion that was killed goes on only with the same.
    classes
        By column of numbers that stand for texts, the texts in the order of the numbers: the notes of the data set
        keep them.
    """

    name: str
    columns: Mapping[str, Column]
    num_rows: int | None = None
    identity: str = ""
    #: Whether the dtypes of numbers are stated, not told by texts. Ids may be whole numbers in floating point then, as
    #: pandas writes them beside null.
    states_dtypes: bool = True
    classes: Mapping[str, Sequence[str]] = MappingProxyType({})

    @abstractmethod
    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield the rows of some columns in file order, at most `rows` at a time.

        Texts are object arrays of ``str``, with None for null. A column of numbers with nulls is a
        ``numpy.ma.MaskedArray`` whose mask is true for nulls, and a plain array in a chunk without any. A null vector
        is refused here.

        Raises
        ------
        InputError
            If a row is malformed, with its file and row.
        """

    def arrow_chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, Any]]:
        """Yield what `chunks` does; texts may be arrays of pyarrow, which are faster than objects."""
        return self.chunks(columns, rows)

    def where(self, row: int) -> str:
        """Return the file and the row, as a user counts them, of a row of the table that counts from 0."""
        return f"{self.name}, row {row}"

    def stamps(self) -> tuple[Stamp, ...]:
        """Return the files as they are now, which must not change while they are read; nothing for arrays in memory."""
        return ()

    def column(self, name: str) -> Column:
        """Return what a column holds.

        Raises
        ------
        InputError
            If there is no such column, with those that there are.
        """
        if name not in self.columns:
            raise InputError(f"convert: {self.name} has no column {name!r}; its columns are {list(self.columns)}")
        return self.columns[name]

    def about_rows(self) -> int | None:
        """Return how many rows there are, about; None if nothing tells before all are read."""
        return self.num_rows

    def load(self) -> None:  # noqa: B027 - most formats need nothing more
        """Load the libraries that read rows, so that it is known how much memory these take."""

    def is_empty(self, column: str) -> bool:
        """Whether no row has a value in a column, as far as is known before all are read; nothing tells its type."""
        self.column(column)
        return self.num_rows == 0

    def id_kinds(self, column: str) -> frozenset[str]:
        """Return what ids in a column may be read as: "integers", "texts", or either.

        An id is an integer only where its text is the decimal form of it, which other programs write alike.
        """
        return frozenset(["texts" if self.column(column).is_text else "integers"])

    def with_ids(self, column: str, kind: str) -> Table:  # noqa: ARG002 - where there is no choice
        """Return the table with a column as ids of a kind, "integers" or "texts", where it may be either."""
        return self

    def __repr__(self) -> str:
        rows = "rows unknown" if self.num_rows is None else f"{self.num_rows} rows"
        return f"{type(self).__name__}({self.name!r}, {rows}, {list(self.columns)})"


def first_text(table: Table, column: str) -> str:
    """Return the first text among the first rows of a column that should have numbers, and its place, for errors.

    Of files of text one such text in a column of numbers makes all of it texts.
    """
    for chunk in table.chunks([column], 4096):
        for row, one in enumerate(chunk[column].tolist()):
            if one is not None and not is_number(one):
                return f"the text {one[:40]!r} in {table.where(row)}"
        break
    return f"texts in {table.name}"


def is_number(text: str) -> bool:
    """Whether a text is a number, as Python reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def where_from(table: Table, start: int, row: int) -> str:
    """Return the place of a row of a chunk that begins at a row of its table."""
    return table.where(start + row)


class ArrayTable(Table):
    """A table of arrays: in memory, or memory maps.

    Parameters
    ----------
    name
        What errors call it.
    arrays
        By name, [num_rows, ...]: numbers, or texts as an object array or an array of unicode.

    Raises
    ------
    InputError
        If arrays differ in their number of rows, or hold something else.
    """

    def __init__(self, name: str, arrays: Mapping[str, Any]) -> None:
        self.name = name
        self._arrays = {one: _as_column(f"{name}: column {one!r}", array) for one, array in arrays.items()}
        sizes = {one: len(array) for one, array in self._arrays.items()}
        if len(set(sizes.values())) != 1:
            raise InputError(f"convert: {name}: expected columns of one length, got {sizes}")
        self.num_rows: int = next(iter(sizes.values()))
        self.columns = {one: Column(_dtype_of(array), array.shape[1:]) for one, array in self._arrays.items()}

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield slices of the arrays; `Table.chunks` documents them."""
        for start in range(0, self.num_rows, rows):
            yield {one: _as_texts(self._arrays[one][start : start + rows]) for one in columns}

    def stamps(self) -> tuple[Stamp, ...]:
        """Return sizes and checksums of the arrays when they were first asked for; of memory maps, their files."""
        return self._stamps

    @cached_property
    def _stamps(self) -> tuple[Stamp, ...]:
        return tuple(_stamp(f"{self.name} {one}", array) for one, array in self._arrays.items())


def _stamp(what: str, array: NDArray[Any]) -> Stamp:
    if isinstance(array, np.memmap) and array.filename is not None:
        status = Path(array.filename).stat()
        return what, status.st_size, status.st_mtime_ns
    total = 0
    for start in range(0, len(array), 1 << 16):
        part = array[start : start + (1 << 16)]
        text = repr(part.tolist()).encode() if part.dtype.kind in "OU" else np.ascontiguousarray(part).tobytes()
        total = crc32(text, total)
    return what, array.nbytes, total


def as_int64(values: NDArray[Any], column: str, where: Callable[[int], str], start: int) -> NDArray[np.int64]:
    """Return integers of a column as int64, of which the first is in row `start`.

    Raises
    ------
    InputError
        If one is 2**63 or more, naming its row.
    """
    if values.dtype == np.uint64 and values.size and int(values.max()) > np.iinfo(np.int64).max:
        raise InputError(
            f"convert: {where(start + int(values.argmax()))}: expected integers below 2**63 in {column!r}, got "
            f"{values.max()}; write ids as texts, which may be any"
        )
    return values.astype(np.int64, copy=False)


def _as_column(what: str, array: Any) -> NDArray[Any]:
    values = array if isinstance(array, np.ndarray) else np.asarray(array)
    if values.ndim == 0 or values.dtype.kind not in "biufOU":
        raise InputError(f"convert: {what}: expected rows of numbers or texts, got {values.dtype}{list(values.shape)}")
    return values


def _dtype_of(array: NDArray[Any]) -> np.dtype[Any]:
    return np.dtype(object) if array.dtype.kind == "U" else array.dtype


def _as_texts(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(object) if array.dtype.kind == "U" else array
