"""A cache of rows in which the least recently used one makes room."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class RowCache:
    """Which rows of a table are kept, and how many were not when they were needed.

    The rows of a batch are looked up together, as one gather does; then they are the most recently used ones, the last
    of them the most recent. It holds row numbers alone.

    Parameters
    ----------
    capacity
        Most rows that are kept.
    num_rows
        Rows of the table.
    """

    def __init__(self, capacity: int, num_rows: int) -> None:
        if capacity < 1:
            raise ValueError(f"expected a capacity of at least one row, got {capacity}")
        self.capacity = capacity
        self._is_kept = np.zeros(num_rows, dtype=bool)
        # The rows that are kept, the least recently used first.
        self._kept: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def read(self, rows: NDArray[np.int64]) -> int:
        """Return how many of the rows, int64[n] and distinct, have to be fetched past the cache; keep them."""
        missing = len(rows) - int(np.count_nonzero(self._is_kept[rows]))
        self._is_kept[rows] = False
        untouched = self._kept[self._is_kept[self._kept]]
        self._is_kept[untouched] = False
        self._kept = np.concatenate([untouched, rows])[-self.capacity :]
        self._is_kept[self._kept] = True
        return missing
