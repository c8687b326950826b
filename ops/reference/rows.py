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


def decode_rows(
    numbers: NDArray[Any], dtype: str, scale: NDArray[np.float32] | None, zero_point: NDArray[np.float32] | None
) -> NDArray[np.float64]:
    """Decode numbers, given exactly, one operation after the other, and round them to a dtype of torch."""
    values = numbers.astype(np.float32)
    if scale is not None and zero_point is not None:
        values = ((values - zero_point).astype(np.float32) * scale).astype(np.float32)
    if dtype != "bfloat16":
        return values.astype(dtype).astype(np.float64)
    # 8 bits, the first of which stands for the power of two; below 2^-126 the last one stays.
    _, exponent = np.frexp(values.astype(np.float64))
    last = np.ldexp(1.0, np.maximum(exponent, -125) - 8)
    rounded = np.rint(values / last) * last
    return np.where(np.abs(rounded) < np.ldexp(1.0, 128), rounded, np.sign(values) * np.inf)


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
