"""Tables in ``.npy`` and ``.npz`` files, read by NumPy alone."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.files import Paths, files_of, stamps_of
from headrace.pipeline.convert.table import Column, Stamp, Table
from headrace.pipeline.storage.array_file import DAMAGED, open_rows


class NpyTable(Table):
    """A table whose columns are in ``.npy`` files, one below the other where a column has several.

    Parameters
    ----------
    columns
        By name its file or files; ``{"src": ("edges.npy", 0), "dst": ("edges.npy", 1)}`` takes rows 0 and 1 of an array
        [2, num_rows], or columns of one [num_rows, 2].
    name
        What errors call it; by default the first file.

    Raises
    ------
    InputError
        If a file is no array of numbers, or columns differ in length.
    """

    def __init__(self, columns: Mapping[str, Paths | tuple[Paths, int]], name: str | None = None) -> None:
        if not columns:
            raise InputError("convert: expected columns of .npy files, got none")
        self._parts: dict[str, list[_Part]] = {}
        for column, given in columns.items():
            paths, place = given if isinstance(given, tuple) and isinstance(given[1], int) else (given, None)
            self._parts[column] = [_Part(file, place) for file in files_of(paths)]
        first = next(iter(self._parts.values()))[0]
        self.name = str(first.path) if name is None else name
        self.identity = str(
            {one: [(str(part.path), part.place) for part in parts] for one, parts in self._parts.items()}
        )
        self.columns = {column: _column_of(column, parts) for column, parts in self._parts.items()}
        sizes = {column: sum(part.num_rows for part in parts) for column, parts in self._parts.items()}
        if len(set(sizes.values())) > 1:
            raise InputError(f"convert: {self.name}: expected columns of one length, got {sizes}")
        self.num_rows: int = next(iter(sizes.values()))
        self._files = list(dict.fromkeys(part.path for parts in self._parts.values() for part in parts))

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield rows; `Table.chunks` documents it."""
        for start in range(0, self.num_rows, rows):
            stop = min(start + rows, self.num_rows)
            yield {one: _rows(self._parts[one], start, stop) for one in columns}

    def stamps(self) -> tuple[Stamp, ...]:
        """Return the files as they are now."""
        return stamps_of(self._files)


class NpzTable(Table):
    """A table whose columns are arrays of one ``.npz`` file, packed or not.

    Parameters
    ----------
    path
        The file.
    columns
        Names of arrays to take; None for all with as many rows as the first one.

    Raises
    ------
    InputError
        If it is no such file, an array holds Python objects, or arrays differ in length.
    """

    def __init__(self, path: str | Path, columns: Sequence[str] | None = None) -> None:
        (self._path,) = files_of(path)
        self.name = str(self._path)
        heads = {}
        try:
            with zipfile.ZipFile(self._path) as archive:
                for member in archive.namelist():
                    name = member.removesuffix(".npy")
                    if columns is None or name in columns:
                        with archive.open(member) as file:
                            heads[name] = _read_head(file)
        except (zipfile.BadZipFile, *DAMAGED) as cause:
            raise InputError(
                f"convert: expected arrays in {path}, got a damaged file ({cause}); copy it again"
            ) from cause
        missing = [name for name in columns or () if name not in heads]
        if missing or not heads:
            raise InputError(f"convert: {path}: expected arrays {missing or 'of rows'}, got {list(heads)}")
        sizes = {name: head[0][0] if head[0] else 0 for name, head in heads.items()}
        count = next(iter(sizes.values()))
        if columns is None:
            heads = {name: head for name, head in heads.items() if sizes[name] == count}
        elif len(set(sizes.values())) > 1:
            raise InputError(f"convert: {path}: expected columns of one length, got {sizes}")
        self.num_rows = count
        self.columns = {name: _checked_column(f"{path}, {name}", head) for name, head in heads.items()}

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield rows; `Table.chunks` documents it."""
        assert self.num_rows is not None
        with zipfile.ZipFile(self._path) as archive:
            files = {name: archive.open(f"{name}.npy") for name in columns}
            try:
                for file in files.values():
                    _read_head(file)
                for start in range(0, self.num_rows, rows):
                    count = min(rows, self.num_rows - start)
                    yield {name: self._take(name, file, count) for name, file in files.items()}
            except (zipfile.BadZipFile, EOFError) as cause:
                raise InputError(f"convert: {self._path} is damaged ({cause}); copy it again") from cause
            finally:
                for file in files.values():
                    file.close()

    def stamps(self) -> tuple[Stamp, ...]:
        """Return the file as it is now."""
        return stamps_of([self._path])

    def _take(self, name: str, file: Any, count: int) -> NDArray[Any]:
        column = self.columns[name]
        num_bytes = count * math.prod(column.shape) * column.dtype.itemsize
        content = file.read(num_bytes)
        if len(content) < num_bytes:
            raise EOFError(f"{name} ends early")
        return np.frombuffer(content, column.dtype).reshape(count, *column.shape)


class _Part:
    """A file of one column, or one side of its pairs."""

    def __init__(self, path: Path, place: int | None) -> None:
        self.path = path
        self.place = place
        with open_rows(path) as opened:
            self.start, self.shape, self.dtype = opened.start, opened.shape, opened.dtype
        _checked_column(str(path), (self.shape, False, self.dtype))
        self.across = place is not None and self.shape[0] == 2 and len(self.shape) == 2
        if place is not None and not self.across and not (len(self.shape) == 2 and place < self.shape[1]):
            raise InputError(f"convert: expected pairs [2, n] or [n, 2] in {path}, got {list(self.shape)}")
        self.num_rows = self.shape[1] if self.across else self.shape[0]

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.shape[1:] if self.place is None else ()

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Read rows: a map of the file would count as memory of the process."""
        if self.across:
            first, width = (self.place or 0) * self.shape[1] + start, 1
        else:
            first, width = start * math.prod(self.shape[1:]), math.prod(self.shape[1:])
        count = (stop - start) * width
        found = np.fromfile(self.path, self.dtype, count, offset=self.start + first * self.dtype.itemsize)
        if found.size != count:
            raise InputError(f"convert: {self.path} became shorter while it was read; convert again")
        if self.place is not None and not self.across:
            return found.reshape(stop - start, -1)[:, self.place]
        return found.reshape(stop - start, *self.row_shape)


def _column_of(name: str, parts: Sequence[_Part]) -> Column:
    kinds = {(part.dtype, part.row_shape): part.path for part in parts}
    if len(kinds) > 1:
        raise InputError(f"convert: expected files of column {name!r} of one dtype and shape, got {kinds}")
    return Column(parts[0].dtype.newbyteorder("="), parts[0].row_shape)


def _rows(parts: Sequence[_Part], start: int, stop: int) -> NDArray[Any]:
    """Return rows that may be in several files, which are one below the other."""
    found, first = [], 0
    for part in parts:
        low, high = max(start, first), min(stop, first + part.num_rows)
        if low < high:
            found.append(part.rows(low - first, high - first))
        first += part.num_rows
    return found[0] if len(found) == 1 else np.concatenate(found)


def _read_head(file: BinaryIO | Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)


def _checked_column(what: str, head: tuple[tuple[int, ...], bool, np.dtype[Any]]) -> Column:
    shape, fortran_order, dtype = head
    if dtype.kind not in "biuf" or not shape or (fortran_order and len(shape) > 1):
        raise InputError(
            f"convert: expected rows of numbers in {what}, got {dtype}{list(shape)}"
            f"{' in Fortran order' if fortran_order else ''}; write numpy.ascontiguousarray(array)"
        )
    return Column(dtype.newbyteorder("="), tuple(shape[1:]))
