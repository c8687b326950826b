"""Slow, obvious versions of `headrace.ops.features`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


def gather_rows(source: NDArray[Any], ids: IntArray, out: NDArray[Any], places: IntArray) -> NDArray[Any]:
    """Copy rows one by one."""
    result = out.copy()
    for row, place in zip(ids, places, strict=True):
        result[place] = source[row]
    return result


def scatter_add_rows(out: NDArray[Any], ids: IntArray, rows: NDArray[Any]) -> NDArray[Any]:
    """Add rows one after the other, in the dtype of `out`."""
    total = out.copy()
    for place, row in zip(ids, rows, strict=True):
        total[place] = total[place] + row
    return total


def locate_rows(
    rank: IntArray, ids: IntArray, replicated: int, interleaved: int, num_devices: int, host: int, here: int
) -> tuple[list[int], list[int]]:
    """Find the table and the row of each id, one by one (Data Tiering, arXiv 2111.05894)."""
    tables, rows = [], []
    for node in ids.tolist():
        position = int(rank[node])
        if position < replicated:
            table, row = here, position
        elif position < replicated + interleaved:
            table, row = (position - replicated) % num_devices, replicated + (position - replicated) // num_devices
        elif position < replicated + interleaved + host:
            table, row = num_devices, position - replicated - interleaved
        else:
            table, row = num_devices + 1, node
        tables.append(table)
        rows.append(row)
    return tables, rows
