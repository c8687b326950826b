"""Slow, obvious versions of `headrace.ops.graphs.csc`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


def coo_to_csc(src: IntArray, dst: IntArray, num_nodes: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return (indptr, indices, edge_ids): edges sorted by destination, stable."""
    edge_ids = np.argsort(dst, kind="stable").astype(np.int64)
    indptr = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(dst, minlength=num_nodes), out=indptr[1:])
    return indptr, np.asarray(src)[edge_ids].astype(np.int64), edge_ids


def has_parallel_edges(indptr: IntArray, indices: IntArray) -> bool:
    """Look for a row with fewer distinct sources than edges."""
    rows = [indices[start:stop].tolist() for start, stop in pairwise(indptr)]
    return any(len(set(row)) < len(row) for row in rows)
