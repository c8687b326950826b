"""Slow, obvious versions of `headrace.ops.sampling.walk`: the oracles of its tests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.ops.reference.random import bounded, stream_words
from headrace.ops.reference.real_variates import unit_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


def weight_sums(indptr: IntArray, weights: NDArray[Any]) -> NDArray[np.float64]:
    """Sum the weights of each row up to and including each edge."""
    sums = np.zeros(len(weights))
    for node in range(len(indptr) - 1):
        total = 0.0
        for edge in range(int(indptr[node]), int(indptr[node + 1])):
            total += float(weights[edge])
            sums[edge] = total
    return sums


def walk(
    indptr: IntArray,
    indices: IntArray,
    start: int,
    length: int,
    restart: float,
    words: Iterator[int],
    sums: NDArray[np.float64] | None,
) -> list[int]:
    """One walk that takes its randomness from `words`: start, then a node per step, -1 behind a dead end."""
    threshold = int(restart * 2**32)
    visited = [start]
    for _ in range(length):
        node = visited[-1]
        if node == -1:
            visited.append(-1)
        elif threshold and next(words) < threshold:
            visited.append(start)
        else:
            first, last = int(indptr[node]), int(indptr[node + 1])
            if first == last or (sums is not None and sums[last - 1] == 0):
                visited.append(-1)
            elif sums is None:
                visited.append(int(indices[first + bounded(words, last - first)]))
            else:
                target = unit_interval(next(words) << 32 | next(words)) * float(sums[last - 1])
                visited.append(int(indices[next(edge for edge in range(first, last) if sums[edge] > target)]))
    return visited


def random_walk(
    indptr: IntArray,
    indices: IntArray,
    starts: IntArray,
    length: int,
    *,
    restart: float = 0.0,
    key: int,
    ids: IntArray | None = None,
    sums: NDArray[np.float64] | None = None,
) -> IntArray:
    """One walk per start, each with the stream of its id."""
    streams = range(len(starts)) if ids is None else ids
    walks = [
        walk(indptr, indices, int(start), length, restart, stream_words(key, int(stream)), sums)
        for start, stream in zip(starts, streams, strict=True)
    ]
    return np.array(walks, np.int64).reshape(len(starts), length + 1)


def pinsage_neighbors(
    indptr: IntArray,
    indices: IntArray,
    frontier: IntArray,
    num_neighbors: int,
    *,
    num_walks: int,
    walk_length: int,
    restart: float,
    key: int,
    sums: NDArray[np.float64] | None = None,
) -> tuple[IntArray, IntArray, IntArray]:
    """Return (indptr, neighbours, counts): the most visited nodes of each destination, then the first visited."""
    pointers, neighbors, counts = [0], [], []
    for node in map(int, frontier):
        words = stream_words(key, node)
        visits: list[int] = []
        for _ in range(num_walks):
            visits += walk(indptr, indices, node, walk_length, restart, words, sums)[1:]
        # most_common keeps the order of first occurrence among equals
        top = Counter(visit for visit in visits if visit not in (-1, node)).most_common(num_neighbors)
        neighbors += [neighbor for neighbor, _ in top]
        counts += [count for _, count in top]
        pointers.append(len(counts))
    return np.array(pointers, np.int64), np.array(neighbors, np.int64), np.array(counts, np.int64)
