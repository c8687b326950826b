"""Edges of pairs of nodes, and negative destinations of pairs. See `headrace.ops.sampling`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.ops.reference.picks import running_sums
from headrace.ops.reference.random import bounded, stream_words
from headrace.ops.reference.real_variates import unit_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]

NEGATIVE_TRIALS = 64


def find_edges(indptr: IntArray, indices: IntArray, sources: IntArray, destinations: IntArray) -> IntArray:
    """Return the positions of all edges between the pairs, ascending."""
    wanted = set(zip(map(int, sources), map(int, destinations), strict=True))
    ends = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    edges = enumerate(zip(map(int, indices), map(int, ends), strict=True))
    return np.array([position for position, edge in edges if edge in wanted], np.int64)


def draw_negatives(
    indptr: IntArray,
    indices: IntArray,
    counts: IntArray,
    *,
    key: int,
    nodes: range,
    weight: str | NDArray[np.float64] | None = None,
    reject: IntArray | None = None,
    first_pair: int = 0,
) -> list[int]:
    """Draw some of `nodes` for each pair; `weight` is "degree", or a number for each of them."""
    neighbors = [set(map(int, indices[indptr[v] : indptr[v + 1]])) for v in nodes]
    drawn = []
    for pair, count in enumerate(counts):
        words = _Words(key, first_pair + pair)
        source = None if reject is None else int(reject[pair])
        for _ in range(count):
            for _ in range(NEGATIVE_TRIALS):
                negative = _draw(words, list(nodes), indptr, weight)
                if source not in neighbors[negative - nodes.start]:
                    break
            else:
                left = [i for i in range(len(nodes)) if source not in neighbors[i]]
                of_left = weight[left] if isinstance(weight, np.ndarray) else weight
                negative = _draw(words, [nodes[i] for i in left], indptr, of_left)
            drawn.append(negative)
    return drawn


class _Words:
    """The words of a stream, one by one and in pairs."""

    def __init__(self, key: int, stream: int) -> None:
        self.words: Iterator[int] = stream_words(key, stream)

    def unit(self) -> float:
        """Return a real variate of two words, the upper one first."""
        return unit_interval(next(self.words) << 32 | next(self.words))


def _draw(words: _Words, nodes: list[int], indptr: IntArray, weight: str | NDArray[np.float64] | None) -> int:
    if weight is None:
        return nodes[bounded(words.words, len(nodes))]
    if isinstance(weight, str):
        ends = [v for v in nodes for _ in range(int(indptr[v + 1] - indptr[v]))]
        return ends[bounded(words.words, len(ends))]
    sums = running_sums(weight)
    target = words.unit() * sums[-1]
    return next((node for node, total in zip(nodes, sums, strict=True) if total > target), nodes[sums.index(sums[-1])])
