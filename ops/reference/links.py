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


def find_edges(
    indptr: IntArray,
    indices: IntArray,
    sources: IntArray,
    destinations: IntArray,
    wanted: IntArray | None = None,
    edge_ids: IntArray | None = None,
) -> IntArray:
    """Return the positions of all edges between the pairs, ascending; with `wanted` of each pair the one of that id."""
    ids = np.arange(len(indices)) if wanted is None or edge_ids is None else edge_ids
    meant = np.full(len(sources), -1) if wanted is None else wanted
    asked = set(zip(map(int, sources), map(int, destinations), map(int, meant), strict=True))
    ends = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    edges = zip(
        map(int, indices), map(int, ends), np.full(len(ids), -1) if wanted is None else map(int, ids), strict=True
    )
    return np.array([position for position, edge in enumerate(edges) if edge in asked], np.int64)


def find_edges_by_tree(
    indptr: IntArray,
    indices: IntArray,
    sources: IntArray,
    destinations: IntArray,
    slots: IntArray,
    wanted: IntArray | None = None,
    edge_ids: IntArray | None = None,
) -> dict[int, IntArray]:
    """Return those of the pairs of each tree."""
    found = {}
    for slot in np.unique(slots):
        own = slots == slot
        of_tree = (indptr, indices, sources[own], destinations[own], None if wanted is None else wanted[own], edge_ids)
        found[int(slot)] = find_edges(*of_tree)
    return found


def find_edges_by_id(edge_ids: IntArray, wanted: IntArray) -> IntArray:
    """Return the positions of edges of some ids, ascending; of -1 there is none."""
    ids = set(map(int, wanted))
    return np.array([position for position, edge in enumerate(map(int, edge_ids)) if edge in ids], np.int64)


def draw_negatives(
    indptr: IntArray,
    indices: IntArray,
    counts: IntArray,
    *,
    key: int,
    nodes: range,
    weight: str | NDArray[np.float64] | None = None,
    reject: IntArray | None = None,
    order: IntArray | None = None,
    prefix: IntArray | None = None,
    first_pair: int = 0,
) -> list[int]:
    """Draw some of `nodes` for each pair; `weight` is "degree", or a number for each of them in the order."""
    ordered = list(nodes) if order is None else list(map(int, order))
    neighbors = [set(map(int, indices[indptr[v] : indptr[v + 1]])) for v in nodes]
    drawn = []
    for pair, count in enumerate(counts):
        words = _Words(key, first_pair + pair)
        allowed = ordered if prefix is None else ordered[: prefix[pair]]
        weights = weight[: len(allowed)] if isinstance(weight, np.ndarray) else weight
        source = None if reject is None else int(reject[pair])
        for _ in range(count):
            for _ in range(NEGATIVE_TRIALS):
                negative = _draw(words, allowed, indptr, weights)
                if source not in neighbors[negative - nodes.start]:
                    break
            else:
                left = [i for i, node in enumerate(allowed) if source not in neighbors[node - nodes.start]]
                of_left = weights[left] if isinstance(weights, np.ndarray) else weights
                negative = _draw(words, [allowed[i] for i in left], indptr, of_left)
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
