"""Tables with other rows than those of their files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.convert.formats.views import Chunk, View
from headrace.pipeline.convert.sorted_edges import set_bits
from headrace.pipeline.convert.table import Stamp, Table

#: Rows that are looked at together.
_AT_A_TIME = 1 << 16


class WithoutRows(View):
    """A table without some of its rows.

    Parameters
    ----------
    num_rows
        Of the table.
    rows
        Those to leave out, in arrays, in any order.
    """

    def __init__(self, table: Table, num_rows: int, rows: Iterable[NDArray[np.int64]]) -> None:
        self._goes = np.zeros(-(-num_rows // 8), np.uint8)  # a bit for each row
        super().__init__(table, {})
        for some in rows:
            set_bits(self._goes, some)
            num_rows -= len(some)
        self.num_rows = num_rows

    def _with_changes(self, chunks: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        start = 0
        for chunk in chunks:
            size = len(next(iter(chunk.values())))
            stays = self._stay(start, start + size)
            yield {name: _filtered(values, stays) for name, values in chunk.items()}
            start += size

    def where(self, row: int) -> str:
        """Return the place of a row, of those that stay."""
        start, left = 0, row
        while True:
            stays = self._stay(start, start + _AT_A_TIME).nonzero()[0]
            if left < len(stays):
                return self._table.where(start + int(stays[left]))
            start, left = start + _AT_A_TIME, left - len(stays)

    def _stay(self, start: int, stop: int) -> NDArray[np.bool_]:
        bits = np.unpackbits(self._goes[start // 8 : -(-stop // 8)], bitorder="little")[start % 8 :][: stop - start]
        stays: NDArray[np.bool_] = bits == 0
        return stays


class WithInverses(Table):
    """A table of edges, each followed by the one from its destination to its source, with the same other columns."""

    def __init__(self, table: Table, src: str, dst: str) -> None:
        self._table, self._other_end = table, {src: dst, dst: src}
        self.name, self.identity = table.name, f"edges and their inverses of {table.identity}"
        self.columns, self.classes = table.columns, table.classes
        self.num_rows = None if table.num_rows is None else 2 * table.num_rows

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Chunk]:
        """Yield rows; `Table.chunks` documents it."""
        needed = dict.fromkeys([*columns, *(self._other_end[name] for name in columns if name in self._other_end)])
        for chunk in self._table.chunks(list(needed), max(1, rows // 2)):
            twice = {name: chunk[name].repeat(2, axis=0) for name in columns}
            for name in columns:
                if name in self._other_end:
                    twice[name][1::2] = chunk[self._other_end[name]]
            yield twice

    def is_empty(self, column: str) -> bool:
        """Whether no row has a value in a column; `Table.is_empty` documents it."""
        return self._table.is_empty(column)

    def where(self, row: int) -> str:
        """Return the place of the row of an edge, or of its inverse."""
        return self._table.where(row // 2)

    def stamps(self) -> tuple[Stamp, ...]:
        """Return the files as they are now."""
        return self._table.stamps()

    def about_rows(self) -> int | None:
        """Return how many rows there are, about."""
        count = self._table.about_rows()
        return None if count is None else 2 * count

    def load(self) -> None:
        """Load what reads the table."""
        self._table.load()


def _filtered(values: Any, stays: NDArray[np.bool_]) -> Any:
    """Return some rows of an array of NumPy, or of pyarrow."""
    return values[stays] if isinstance(values, np.ndarray) else values.filter(stays)
