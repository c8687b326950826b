"""Tables made of other tables: side by side, with other dtypes, and with texts as numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.pipeline.convert.table import Column, Stamp, Table

#: Classes of a label: more are no classes.
MOST_CLASSES = 100_000

_AT_A_TIME = 1 << 16

Chunk = Mapping[str, NDArray[Any]]

Kind = TypeVar("Kind", bound=Hashable)


class Beside(Table):
    """Tables side by side: row i has the columns of row i of each.

    Raises
    ------
    InputError
        If a column is in two of them, or they differ in the number of rows.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self.name, self.identity = tables[0].name, str([(one.name, one.identity) for one in tables])
        self.columns = {name: column for one in tables for name, column in one.columns.items()}
        self.classes = {name: texts for one in tables for name, texts in one.classes.items()}
        twice = [name for name in self.columns if sum(name in one.columns for one in tables) > 1]
        if twice:
            raise InputError(f"convert: expected one column {twice[0]!r}, got it in several files beside {self.name}")
        counts = {one.name: one.num_rows for one in tables if one.num_rows is not None}
        if len(set(counts.values())) > 1:
            raise InputError(f"convert: expected files of as many rows, got {counts}")
        self.num_rows = next(iter(counts.values()), None)

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        """Yield rows; `Table.chunks` documents it."""
        wanted = [(one, [name for name in columns if name in one.columns]) for one in self._tables]
        readers = [_Reader(one, names, rows) for one, names in wanted if names]
        while True:
            sizes = [one.waiting() for one in readers]
            if not any(sizes):
                return
            if not all(sizes):
                names = [one.name for one in self._tables]
                raise InputError(f"convert: expected files of as many rows, but one of {names} ends before others")
            yield {name: rows for one in readers for name, rows in one.take(min(sizes)).items()}

    def where(self, row: int) -> str:
        """Return the place of a row in the first file."""
        return self._tables[0].where(row)

    def stamps(self) -> tuple[Stamp, ...]:
        """Return the files as they are now."""
        return tuple(stamp for one in self._tables for stamp in one.stamps())

    def about_rows(self) -> int | None:
        """Return how many rows there are, about."""
        return next((count for one in self._tables if (count := one.about_rows()) is not None), None)

    def load(self) -> None:
        """Load what reads the tables."""
        for one in self._tables:
            one.load()

    def is_empty(self, column: str) -> bool:
        """Whether no row has a value in a column; `Table.is_empty` documents it."""
        self.column(column)
        return next(one.is_empty(column) for one in self._tables if column in one.columns)

    def id_kinds(self, column: str) -> frozenset[str]:
        """Return what ids in a column may be; `Table.id_kinds` documents it."""
        self.column(column)
        return next(one.id_kinds(column) for one in self._tables if column in one.columns)

    def with_ids(self, column: str, kind: str) -> Table:
        """Return the table with a column as ids of a kind; `Table.with_ids` documents it."""
        return Beside([one.with_ids(column, kind) if column in one.columns else one for one in self._tables])


class _Reader:
    """Takes any number of rows of a table at a time."""

    def __init__(self, table: Table, columns: Sequence[str], rows: int) -> None:
        self._chunks = table.chunks(columns, rows)
        self._chunk: Chunk = {}
        self._start = 0

    def waiting(self) -> int:
        """Return how many rows can be taken: 0 at the end."""
        size = _size(self._chunk)
        while self._start == size:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._chunk, self._start, size = chunk, 0, _size(chunk)
        return size - self._start

    def take(self, count: int) -> Chunk:
        start, self._start = self._start, self._start + count
        return {name: rows[start : start + count] for name, rows in self._chunk.items()}


class View(Table):
    """One table with some columns changed as they are read, in `_changed`."""

    def __init__(self, table: Table, changed: Mapping[str, Column]) -> None:
        self._known = changed
        self.take(table)

    def take(self, table: Table) -> None:
        """Be a view of another table with the same columns."""
        self._table = table
        self.name, self.identity = table.name, f"{type(self).__name__} of {table.identity}"
        self.num_rows, self.states_dtypes = table.num_rows, table.states_dtypes
        self.columns = {**table.columns, **self._known}
        self.classes = {**table.classes, **self.classes}

    def is_empty(self, column: str) -> bool:
        """Whether no row has a value in a column; `Table.is_empty` documents it."""
        return self._table.is_empty(column) if column in self._table.columns else super().is_empty(column)

    def id_kinds(self, column: str) -> frozenset[str]:
        """Return what ids in a column may be; `Table.id_kinds` documents it."""
        return super().id_kinds(column) if column in self._known else self._table.id_kinds(column)

    def with_ids(self, column: str, kind: str) -> Table:
        """Return the table with a column as ids of a kind; `Table.with_ids` documents it."""
        if column in self._known:
            return self
        made = copy(self)
        made.take(self._table.with_ids(column, kind))
        return made

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        """Yield rows; `Table.chunks` documents it."""
        return self._with_changes(self._table.chunks(columns, rows))

    def arrow_chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, Any]]:
        """Yield rows; `Table.arrow_chunks` documents it."""
        return self._with_changes(self._table.arrow_chunks(columns, rows))

    def where(self, row: int) -> str:
        """Return the place of a row."""
        return self._table.where(row)

    def stamps(self) -> tuple[Stamp, ...]:
        """Return the files as they are now."""
        return self._table.stamps()

    def about_rows(self) -> int | None:
        """Return how many rows there are, about."""
        return self._table.about_rows()

    def load(self) -> None:
        """Load what reads the table."""
        self._table.load()

    def _with_changes(self, chunks: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        start = 0
        for chunk in chunks:
            yield {
                name: self._changed(name, values, start) if name in self._known else values
                for name, values in chunk.items()
            }
            start += _size(chunk)

    def _changed(self, name: str, values: Any, start: int) -> NDArray[Any]:
        """Return a column of a chunk, of which the first is row `start`; texts may be an array of pyarrow."""
        raise NotImplementedError


class Cast(View):
    """A table with some columns of numbers in other dtypes.

    A number is rounded where a dtype of floating point demands it; one that would change otherwise is refused when it
    is read, with its row: integers that are too large, fractions as integers, and finite numbers as infinite ones.

    Parameters
    ----------
    advice
        What to do about such a number, for the error.
    """

    def __init__(self, table: Table, dtypes: Mapping[str, np.dtype[Any]], advice: str = "correct it") -> None:
        super().__init__(table, {name: Column(dtype, table.column(name).shape) for name, dtype in dtypes.items()})
        self._dtypes, self._advice = dtypes, advice

    def _changed(self, name: str, values: NDArray[Any], start: int) -> NDArray[Any]:
        if values.dtype == self._dtypes[name]:
            return values
        dtype = self._dtypes[name]
        with np.errstate(all="ignore"):
            cast = values.astype(dtype, copy=False)
        changed = _is_changed(np.ma.getdata(values), np.ma.getdata(cast)) & ~np.ma.getmaskarray(values)
        if changed.any():
            place = np.unravel_index(int(changed.argmax()), changed.shape)
            raise InputError(
                f"convert: {self.where(start + int(place[0]))}: expected a number of {dtype} in {name!r}, got "
                f"{values[place]}; {self._advice}"
            )
        return cast


class Slices(View):
    """A table with numbers of its vectors as columns of their own.

    Parameters
    ----------
    table
        Any.
    places
        By the name of a new column, or of one to replace, the column of vectors and the place in these.
    """

    def __init__(self, table: Table, places: Mapping[str, tuple[str, int]]) -> None:
        super().__init__(table, {name: Column(table.column(wide).dtype) for name, (wide, _) in places.items()})
        self._places = places

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        """Yield rows; `Table.chunks` documents it."""
        needed = list(dict.fromkeys(self._places[name][0] if name in self._places else name for name in columns))
        for chunk in self._table.chunks(needed, rows):
            yield {name: self._slice(name, chunk) for name in columns}

    def arrow_chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, Any]]:
        """Yield rows; `Table.arrow_chunks` documents it."""
        return self.chunks(columns, rows)

    def _slice(self, name: str, chunk: Chunk) -> NDArray[Any]:
        if name not in self._places:
            return chunk[name]
        wide, place = self._places[name]
        return chunk[wide][:, place]


def _is_changed(values: NDArray[Any], cast: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which numbers have become others by more than rounding."""
    if cast.dtype.kind == "f":
        return np.asarray(np.isinf(cast) & np.isfinite(values))
    if values.dtype.kind == "b":
        return np.zeros(values.shape, bool)
    bounds = np.iinfo(cast.dtype)
    if values.dtype.kind == "f":
        exact = values.astype(np.float64)
        fits = (exact >= float(bounds.min)) & (exact < float(bounds.max + 1)) & (np.trunc(exact) == exact)
        return np.asarray(~fits)
    own = np.iinfo(values.dtype)
    return np.asarray((values < max(own.min, bounds.min)) | (values > min(own.max, bounds.max)))


class Numbered(View):
    """A table with texts in some columns as the numbers of their classes, int64, and null as -100.

    Parameters
    ----------
    table, columns
        The table, and its columns of texts.
    classes
        By column the texts in their order, which is that of the numbers; by default those of the table, which are
        found by one pass over it.
    """

    def __init__(
        self, table: Table, columns: Sequence[str], classes: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        super().__init__(table, {name: Column(np.dtype(np.int64)) for name in columns})
        ordered = classes_of([(table, {name: name for name in columns})]) if classes is None else classes
        self.classes = {**table.classes, **ordered}
        self._numbers = {name: {text: at for at, text in enumerate(texts)} for name, texts in ordered.items()}

    def _changed(self, name: str, values: Any, start: int) -> NDArray[Any]:  # noqa: ARG002 - of others
        numbers = self._numbers[name]
        return np.array([numbers.get(one, -100) for one in values.tolist()], np.int64)


def classes_of(columns: Iterable[tuple[Table, Mapping[str, Kind]]]) -> dict[Kind, list[str]]:
    """Return the texts in columns of tables by their kinds, in ascending order; each table is read once.

    Raises
    ------
    InputError
        If there are too many of a kind.
    """
    found: dict[Kind, set[str]] = {}
    for table, kinds in columns:
        for chunk in table.chunks(list(kinds), _AT_A_TIME):
            for name, values in chunk.items():
                texts = found.setdefault(kinds[name], set())
                texts.update(one for one in values if one is not None)
                if len(texts) > MOST_CLASSES:
                    raise InputError(
                        f"convert: {table.name}: expected labels in {name!r}, got more than {MOST_CLASSES} different "
                        "texts; number them, or leave the column out"
                    )
        for kind in kinds.values():
            found.setdefault(kind, set())
    return {kind: sorted(texts) for kind, texts in found.items()}


class WithoutValues(View):
    """A table with columns of null alone, as integers or as texts.

    Parameters
    ----------
    dtypes
        Of the columns: int64, or ``object`` of texts.
    """

    def __init__(self, table: Table, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        super().__init__(table, {name: Column(dtype) for name, dtype in dtypes.items()})

    def _changed(self, name: str, values: Any, start: int) -> NDArray[Any]:  # noqa: ARG002 - no row has a value
        dtype = self.columns[name].dtype
        if self.columns[name].is_text:
            return np.full(len(values), None, dtype)
        return np.ma.MaskedArray(np.zeros(len(values), dtype), np.ones(len(values), bool))


def _size(chunk: Chunk) -> int:
    return len(next(iter(chunk.values()))) if chunk else 0
