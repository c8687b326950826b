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
