"""Slow, obvious version of `headrace.ops.graphs.reorder`: the oracle of its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


def reorder_csc(indptr: IntArray, indices: IntArray, order: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Renumber nodes; return indptr, indices and the place that each edge had."""
    old_of_new = [int(v) for v in order]
    new_of_old = {old: new for new, old in enumerate(old_of_new)}
    rows = [range(int(indptr[v]), int(indptr[v + 1])) for v in old_of_new]
    edges = [place for row in rows for place in row]
    return (
        np.array([0, *np.cumsum([len(row) for row in rows])], dtype=np.int64),
        np.array([new_of_old[int(indices[place])] for place in edges], dtype=np.int64),
        np.array(edges, dtype=np.int64),
    )
