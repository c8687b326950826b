"""Items: from tables of their own, and from columns that say of nodes and edges which items they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.attributes import as_labels, missing, nulls
from headrace.pipeline.convert.database import INCOMING, Database
from headrace.pipeline.convert.description import NULL_TIMES, Items, NodeTable, Options, split_name
from headrace.pipeline.convert.ends import Ends, number_of, refuse_negative, refuse_unknown
from headrace.pipeline.convert.fed_rows import feed_rows
from headrace.pipeline.convert.ids import NodeIds
from headrace.pipeline.convert.memory import rows_within
from headrace.pipeline.convert.raw_array import RawArray, RawWriter
from headrace.pipeline.convert.table import Table, as_int64
from headrace.pipeline.convert.work_folder import Facts, WorkFolder

#: Names that a column of splits may have: more are no splits.
_MOST_NAMES = 64

_INT64 = np.dtype(np.int64)


@dataclass(frozen=True, eq=False)
class ItemRun:
    """Items of one name and type, in files: ids, labels and times."""

    type: Any
    num_items: int
    ids: RawArray
    labels: RawArray | None
    times: RawArray | None


@dataclass(frozen=True, eq=False)
class ItemColumns:
    """The columns of labels and times of items, or None, and what to do with null among times."""

    table: Table
    labels: str | None
    time: str | None
    null_times: str

    @property
    def names(self) -> list[str]:
        """The columns to read."""
        return [one for one in (self.labels, self.time) if one is not None]

    def dtypes(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """Return the dtypes and row shapes of labels and times as they are written."""
        found = {}
        if self.labels is not None:
            column = self.table.column(self.labels)
            found["labels"] = (column.dtype, column.shape)
        if self.time is not None:
            is_float = self.table.column(self.time).dtype.kind == "f"
            found["times"] = (np.dtype(np.float64) if is_float else _INT64, ())
        return found

    def values(
        self, chunk: Any, kept: NDArray[np.bool_], start: int, counts: dict[str, int]
    ) -> dict[str, NDArray[Any]]:
        """Return labels and times of a chunk; rows without a time that are to go are taken from `kept`."""
        found = {}
        if self.labels is not None:
            found["labels"] = as_labels(chunk[self.labels], self.table, self.labels, start)
        if self.time is not None:
            times = chunk[self.time]
            null = nulls(times, nan=True)
            plain, dtype = np.ma.getdata(times), self.dtypes()["times"][0]
            is_float = dtype.kind == "f"
            plain = plain.astype(dtype) if is_float else as_int64(plain, self.time, self.table.where, start).copy()
            lacking = null & kept
            if lacking.any() and self.null_times == "refuse":
                raise InputError(
                    f"convert: {self.table.where(start + int(lacking.argmax()))}: expected a time in {self.time!r}, "
                    f"got null; {NULL_TIMES}"
                )
            counts["null times"] += int(lacking.sum())
            if self.null_times == "drop":
                kept &= ~null
            elif null.any():
                plain[null] = -np.inf if plain.dtype.kind == "f" else np.iinfo(np.int64).min
            found["times"] = plain
        if "labels" in found:
            counts["missing"] += int((missing(found["labels"]) & kept).sum())
        return found


class _Writers:
    """Writers of items by name, opened when the first row of a name is written."""

    def __init__(self, work: WorkFolder, key: str, width: int, columns: ItemColumns, stack: ExitStack) -> None:
        self._work, self._key, self._width, self._columns, self._stack = work, key, width, columns, stack
        self._open: dict[str, dict[str, RawWriter]] = {}

    def write(self, name: str, ids: NDArray[Any], values: dict[str, NDArray[Any]], chosen: NDArray[np.bool_]) -> None:
        if name not in self._open:
            if len(self._open) == _MOST_NAMES:
                raise InputError(
                    f"convert: {self._columns.table.name}: expected at most {_MOST_NAMES} names of items, got more: "
                    f"{list(self._open)[:5]}, ...; is this the column of splits?"
                )
            files = item_files(self._work, self._key, len(self._open), self._width, self._columns)
            self._open[name] = {what: self._stack.enter_context(file.writer()) for what, file in files.items()}
        for what, rows in {"ids": ids, **values}.items():
            self._open[name][what].append(rows[chosen])

    def facts(self) -> list[Any]:
        return [[name, writers["ids"].num_rows] for name, writers in self._open.items()]


def item_files(work: WorkFolder, key: str, number: int, width: int, columns: ItemColumns) -> dict[str, RawArray]:
    """Return the files of the items of one name."""
    kinds = {"ids": (_INT64, (2,) if width == 2 else ()), **columns.dtypes()}
    return {what: RawArray(work.file(f"{key}.{number}.{what}"), *kind) for what, kind in kinds.items()}


def runs_of(work: WorkFolder, key: str, of_type: Any, width: int, columns: ItemColumns, facts: Facts) -> list[Any]:
    """Return the names of items that a pass has found, each with its `ItemRun`."""
    found = []
    for number, (name, count) in enumerate(facts["items"]):
        files = item_files(work, key, number, width, columns)
        found.append((name, ItemRun(of_type, count, files["ids"], files.get("labels"), files.get("times"))))
    return found


def columns_of_nodes(node: NodeTable, options: Options) -> ItemColumns:
    """Return what items of a table of nodes have: the times of nodes."""
    assert node.table is not None
    return ItemColumns(node.table, None, node.time, options.null_times)


def read_node_splits(work: WorkFolder, key: str, node: NodeTable, columns: ItemColumns, room: int) -> Facts:
    """Write the items that columns of a table of nodes name."""
    assert node.table is not None
    counts, start = _no_counts(), 0
    by_name = {} if isinstance(node.splits, str) or node.splits is None else dict(node.splits)
    splits = [node.splits] if isinstance(node.splits, str) else list(by_name.values())
    names = list(dict.fromkeys([*splits, *columns.names]))
    with ExitStack() as stack:
        writers = _Writers(work, key, 1, columns, stack)
        for chunk in node.table.chunks(names, rows_within(room // 8, 64)):
            size = len(chunk[names[0]])
            ids = np.arange(start, start + size)
            if isinstance(node.splits, str):
                chosen = _by_name(node.table, node.splits, chunk[node.splits])
            else:
                chosen = [(name, mask_of(node.table, column, chunk[column], start)) for name, column in by_name.items()]
            values = columns.values(chunk, np.ones(size, bool), start, counts)
            for name, mask in chosen:
                writers.write(name, ids, values, mask)
            start += size
        return {"items": writers.facts()}


def read_edge_split(
    base: Database, work: WorkFolder, key: str, split: str, ends: Ends, columns: ItemColumns, room: int
) -> Facts:
    """Write the pairs that a column of a table of edges names, of the edges that stay."""
    counts, row = _no_counts(), 0
    names = list(dict.fromkeys([split, *columns.names]))
    with ExitStack() as stack:
        writers = _Writers(work, key, 2, columns, stack)
        for chunk in columns.table.chunks(names, rows_within(room // 16, 96)):
            size = len(chunk[split])
            kept, pairs = rows_of_window(base, ends.pairs, row, size, ("src", "dst"))
            staying = {name: rows[kept] for name, rows in chunk.items()}
            stays = np.ones(len(kept), bool)
            values = columns.values(staying, stays, row, counts)
            for name, mask in _by_name(columns.table, split, staying[split]):
                writers.write(name, pairs, values, mask & stays)
            row += size
        return {"items": writers.facts()}


def read_items(
    base: Database,
    work: WorkFolder,
    key: str,
    items: Items,
    ids: Sequence[NodeIds],
    columns: ItemColumns,
    options: Options,
    room: int,
    advance: Callable[[int], Any],
) -> Facts:
    """Write the items of a table of their own."""
    counts, start = {"unknown": 0, **_no_counts()}, 0
    of_ids = (items.ids,) if isinstance(items.ids, str) else tuple(items.ids)
    numbers = [f"n{place}" for place in range(len(ids))]
    fed = {f"i{place}": column for place, column in enumerate(of_ids)}
    joined = [number_of(name, one) for name, one in zip(fed, ids, strict=True)]
    select = ", ".join(["i.row", *(f"{number} AS {name}" for (number, _), name in zip(joined, numbers, strict=True))])
    with feed_rows(base, items.table, fed, room, advance, keys=list(fed)):
        joins = " ".join(join for _, join in joined)
        base.execute(f"CREATE OR REPLACE TABLE item_rows AS SELECT {select} FROM {INCOMING} i {joins}")
    for name, column, one in zip(numbers, of_ids, ids, strict=True):
        if one.keys is None and one.num_nodes is None:
            refuse_negative(base, "item_rows", items.table, name, column)
        row = base.value(f"SELECT min(row) FROM item_rows WHERE {name} IS NULL")
        if row is not None and options.unknown_ids != "drop":
            refuse_unknown(items.table, column, row, one.advice)
    known = " AND ".join(f"{name} IS NOT NULL" for name in numbers)
    num_rows, counts["unknown"] = base.row(f"SELECT count(*), count(*) FILTER (WHERE NOT ({known})) FROM item_rows")
    largest = [base.value(f"SELECT coalesce(max({name}), -1) FROM item_rows WHERE {known}") for name in numbers]
    base.execute(f"CREATE OR REPLACE VIEW known_rows AS SELECT * FROM item_rows WHERE {known}")
    with ExitStack() as stack:
        writers = _Writers(work, key, len(ids), columns, stack)
        for chunk, size in _chunks(items.table, columns.names, num_rows, rows_within(room // 16, 96)):
            known_rows, found = rows_of_window(base, "known_rows", start, size, numbers)
            kept, node_ids = np.zeros(size, bool), np.zeros((size, len(numbers)), np.int64)
            kept[known_rows], node_ids[known_rows] = True, found
            values = columns.values(chunk, kept, start, counts)
            writers.write(items.name, node_ids[:, 0] if len(numbers) == 1 else node_ids, values, kept)
            start += size
    base.execute("DROP VIEW known_rows")
    base.execute("DROP TABLE item_rows")
    return {"items": writers.facts(), "counts": counts, "largest": largest}


def rows_of_window(
    base: Database, name: str, first: int, count: int, columns: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which of some rows of a user's table a table of DuckDB has, from 0, and columns of these side by side."""
    select = ", ".join(["row", *columns])
    found = base.arrays(f"SELECT {select} FROM {name} WHERE row >= {first} AND row < {first + count} ORDER BY row")
    side_by_side = [found[one].astype(np.int64) for one in columns]
    return found["row"] - first, np.stack(side_by_side, 1) if columns else np.empty((len(found["row"]), 0), np.int64)


def _no_counts() -> dict[str, int]:
    return {"null times": 0, "missing": 0}


def _chunks(table: Table, names: list[str], num_rows: int, rows: int) -> Iterator[tuple[Any, int]]:
    """Yield columns of a table, none of which may be needed, and how many rows each chunk has."""
    if names:
        yield from ((chunk, len(chunk[names[0]])) for chunk in table.chunks(names, rows))
        return
    yield from (({}, min(rows, num_rows - start)) for start in range(0, num_rows, rows))


def _by_name(table: Table, column: str, values: NDArray[Any]) -> list[tuple[str, NDArray[np.bool_]]]:
    """Return the rows of each name, names in the order of their first row."""
    if values.dtype != object:
        if np.ma.getmaskarray(values).all():  # a column without any name
            return []
        raise InputError(
            f"convert: {table.name}: expected names of items in {column!r}, got {values.dtype}; name a column of "
            f"texts such as train and val, or of booleans for each name: splits = {{ train = {column!r} }}"
        )
    found: dict[str, NDArray[np.bool_]] = {}
    for name in dict.fromkeys(values.tolist()):
        if name:
            ours = split_name(name)
            found[ours] = (values == name) | found.get(ours, False)
    return list(found.items())


def mask_of(table: Table, column: str, values: NDArray[Any], start: int) -> NDArray[np.bool_]:
    """Return which rows of a chunk, of which the first is row `start`, a mask has.

    Raises
    ------
    InputError
        If they are neither booleans nor 0 and 1, with the row.
    """
    plain = np.ma.filled(values, 0)
    if plain.dtype == object:
        raise InputError(f"convert: {table.name}: expected booleans or 0 and 1 in {column!r}, got texts")
    odd = (plain != 0) & (plain != 1)
    if odd.any():
        row = int(odd.argmax())
        raise InputError(
            f"convert: {table.where(start + row)}: expected booleans or 0 and 1 in {column!r}, got {plain[row]}"
        )
    return plain.astype(bool)
