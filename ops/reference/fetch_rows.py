"""Rows of a frontier, copied one by one. See `headrace.ops.sampling.fetch_rows`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


class FetchedRows(NamedTuple):
    """As headrace.ops.FetchedRows, in NumPy."""

    indptr: IntArray
    indices: NDArray[Any]
    starts: IntArray


def fetch_rows(indptr: IntArray, indices: NDArray[Any], frontier: IntArray) -> FetchedRows:
    """Copy the in-edges of every node of a frontier."""
    first, sources, starts = [0], [], []
    for node in map(int, frontier):
        sources += indices[indptr[node] : indptr[node + 1]].tolist()
        starts.append(int(indptr[node]))
        first.append(len(sources))
    return FetchedRows(np.array(first, np.int64), np.array(sources, indices.dtype), np.array(starts, np.int64))
