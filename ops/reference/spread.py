"""Slow, obvious version of `headrace.ops.graphs.spread`: the oracle of its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


def sum_to_sources(indptr: NDArray[Any], indices: NDArray[Any], values: FloatArray) -> FloatArray:
    """For each node, the sum of the values of its out-neighbours, in the order of the edges."""
    sums = np.zeros(len(indptr) - 1)
    for v in range(len(indptr) - 1):
        for edge in range(int(indptr[v]), int(indptr[v + 1])):
            sums[int(indices[edge])] += values[v]
    return sums


def reach_sources(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    frontier: FloatArray,
    row_picks: FloatArray,
    edge_picks: NDArray[np.float32] | None = None,
    order: NDArray[np.int64] | None = None,
) -> FloatArray:
    """Return the chance of each node to be picked by a random frontier; with an order, by one variate per source."""
    num_nodes = len(indptr) - 1
    reached, any_there = np.zeros(num_nodes), np.zeros(num_nodes)
    for v in range(num_nodes) if order is None else map(int, order):
        if not frontier[v] > 0:
            continue
        for edge in range(int(indptr[v]), int(indptr[v + 1])):
            u = int(indices[edge])
            if order is None:
                picked = frontier[v] * (row_picks[v] if edge_picks is None else float(edge_picks[edge]))
                reached[u] += picked * (1 - reached[u])
            else:
                reached[u] += row_picks[v] * frontier[v] * (1 - any_there[u])
                any_there[u] += frontier[v] * (1 - any_there[u])
    return reached
