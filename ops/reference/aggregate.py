"""Slow, obvious versions of `headrace.ops.aggregate`."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.ops.reference.dropout import dropout_mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]
    Rows = NDArray[Any]


def edges_of(indptr: IntArray) -> Iterator[tuple[int, int]]:
    """Yield the row of each edge, and the edge."""
    for row, (start, stop) in enumerate(pairwise(indptr.tolist())):
        for edge in range(start, stop):
            yield row, edge


def transpose_csc(indptr: IntArray, indices: IntArray, num_src: int) -> tuple[list[int], list[int], list[int]]:
    """Collect the edges of each source in turn: row starts, destinations, positions."""
    starts, destinations, positions = [0], [], []
    for source in range(num_src):
        for row, edge in edges_of(indptr):
            if indices[edge] == source:
                destinations.append(row)
                positions.append(edge)
        starts.append(len(destinations))
    return starts, destinations, positions


def message(x: Rows, weight: Rows | None, source: int, position: int) -> Rows:
    """Return weight[position] * x[source], rows being [heads, head width]."""
    row: Rows = x[source] if weight is None else weight[position][:, None] * x[source]
    return row


def spmm(
    indptr: IntArray,
    indices: IntArray,
    x: Rows,
    weight: Rows | None,
    positions: IntArray,
    divisors: Rows | None,
    out: Rows,
) -> Rows:
    """Add messages one by one; x: [num_others, heads, width], weight: [num_positions, heads]."""
    total = out.copy()
    for row, edge in edges_of(indptr):
        total[row] = total[row] + message(x, weight, indices[edge], positions[edge])
    return total if divisors is None else total / divisors[:, None, None]


def spmm_extreme(
    indptr: IntArray,
    indices: IntArray,
    x: Rows,
    weight: Rows | None,
    positions: IntArray,
    largest: bool,
) -> tuple[Rows, IntArray]:
    """Find the best message of each column: NaN before all others, of equal ones that of the lowest position."""
    values = np.zeros((len(indptr) - 1, *x.shape[1:]), x.dtype)
    winners = np.full(values.shape, -1)
    sign = 1 if largest else -1
    for column in np.ndindex(x.shape[1:]):
        for row in range(len(values)):
            found = []
            for edge in range(indptr[row], indptr[row + 1]):
                value = message(x, weight, indices[edge], positions[edge])[column]
                rank = -math.inf if np.isnan(value) else math.inf if value == -sign * math.inf else 0
                found.append((rank, 0 if np.isnan(value) else -sign * value, positions[edge], value))
            if found:
                *_, winners[(row, *column)], values[(row, *column)] = min(found, key=lambda one: one[:3])
    return values, winners


def spmm_winners(
    indptr: IntArray,
    indices: IntArray,
    gradients: Rows,
    winners: IntArray,
    weight: Rows | None,
    positions: IntArray,
    out: Rows,
) -> Rows:
    """Add the gradients of columns that an edge has won, one by one."""
    total = out.copy()
    for row, edge in edges_of(indptr):
        added = message(gradients, weight, indices[edge], positions[edge])
        total[row] = total[row] + np.where(winners[indices[edge]] == positions[edge], added, 0)
    return total


def sddmm(indptr: IntArray, indices: IntArray, a: Rows, b: Rows, positions: IntArray, winners: IntArray | None) -> Rows:
    """Multiply the rows of each edge; rows are [heads, width]."""
    out = np.zeros((len(indices), a.shape[1]), a.dtype)
    for row, edge in edges_of(indptr):
        counts = True if winners is None else winners[row] == positions[edge]
        out[positions[edge]] = np.where(counts, a[row] * b[indices[edge]], 0).sum(-1)
    return out


def attention(
    indptr: IntArray,
    indices: IntArray,
    source: Rows,
    destination: Rows,
    edge_scores: Rows | None,
    weight: Rows | None,
    slope: float,
) -> Rows:
    """Return the attention of each edge and head, [num_edges, heads]: a softmax a row and head, by weight."""
    exps = np.zeros((len(indices), source.shape[1]), source.dtype)
    for row, (start, stop) in enumerate(pairwise(indptr.tolist())):
        if start == stop:
            continue
        plain = source[indices[start:stop]] + destination[row]
        if edge_scores is not None:
            plain = plain + edge_scores[start:stop]
        if weight is not None:
            plain = np.where(weight[start:stop, None] == 0, -np.inf, plain)
        with np.errstate(invalid="ignore"):
            score = np.where((plain > 0) | (plain == -np.inf), plain, plain * slope)
            relative = np.where(score == -np.inf, -np.inf, score - np.fmax.reduce(score, axis=0))
        exps[start:stop] = np.exp(relative) * (1 if weight is None else weight[start:stop, None])
        total = exps[start:stop].sum(axis=0)
        exps[start:stop] /= np.where(total == 0, 1, total)
    return exps


def attend(indptr: IntArray, indices: IntArray, x: Rows, attention_of_edges: Rows, kept: Rows | None = None) -> Rows:
    """Add up rows of `x`, [num_src, heads, width], by attention, of which `kept` says what dropout leaves."""
    out = np.zeros((len(indptr) - 1, *x.shape[1:]), x.dtype)
    for row, edge in edges_of(indptr):
        factor = attention_of_edges[edge] * (1 if kept is None else kept[edge])
        out[row] += factor[:, None] * x[indices[edge]]
    return out


def kept_attention(key: int, ids: IntArray, heads: int, probability: float, dtype: Any) -> Rows:
    """Return what attention is multiplied by, [num_edges, heads]: 0 where it is dropped."""
    mask = dropout_mask(key, ids, heads, round(probability * 2**32))
    scaled: Rows = mask.astype(dtype) / (1 - probability)
    return scaled
