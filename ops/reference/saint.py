"""Slow, obvious versions of `headrace.ops.sampling.saint`: the oracles of its tests."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from headrace.ops.reference.random import bounded, labor_variate, stream_words
from headrace.ops.reference.real_variates import unit_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


def induced_subgraph(indptr: IntArray, indices: IntArray, nodes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return (indptr, local sources, CSC positions) of the edges between `nodes`."""
    place = {int(node): i for i, node in enumerate(nodes)}
    starts, local, positions = [0], [], []
    for node in map(int, nodes):
        for edge in range(int(indptr[node]), int(indptr[node + 1])):
            if int(indices[edge]) in place:
                local.append(place[int(indices[edge])])
                positions.append(edge)
        starts.append(len(local))
    return np.array(starts, np.int64), np.array(local, np.int64), np.array(positions, np.int64)


def edges_of(indptr: IntArray, indices: IntArray) -> list[tuple[int, int]]:
    """Return (source, destination) of every edge, in CSC order."""
    return [
        (int(indices[edge]), node)
        for node in range(len(indptr) - 1)
        for edge in range(int(indptr[node]), int(indptr[node + 1]))
    ]


def node_probabilities(indptr: IntArray, indices: IntArray) -> list[Fraction]:
    """Probability that one draw of the node law brings each node, exactly."""
    weights = [Fraction(0)] * (len(indptr) - 1)
    for source, destination in edges_of(indptr, indices):
        weights[source] += Fraction(1, int(indptr[destination + 1] - indptr[destination]) ** 2)
    return [weight / sum(weights) for weight in weights]


def edge_probabilities(indptr: IntArray, indices: IntArray) -> list[Fraction]:
    """Probability that one draw of the edge law brings each edge, exactly, in CSC order."""
    rows = int((np.diff(indptr) > 0).sum())
    return [Fraction(1, rows * int(indptr[v + 1] - indptr[v])) for _, v in edges_of(indptr, indices)]


def draw_nodes(sums: NDArray[np.float64], num_draws: int, key: int) -> list[int]:
    """Draw i: the first running sum above a uniform variate times the total."""
    targets = [unit_interval(labor_variate(key, i)) * float(sums[-1]) for i in range(num_draws)]
    return [next(node for node in range(len(sums)) if sums[node] > target) for target in targets]


def draw_edges(indptr: IntArray, indices: IntArray, num_draws: int, key: int) -> list[tuple[int, int]]:
    """Draw i: a uniform row that is not empty, then a uniform edge of it."""
    rows = [node for node in range(len(indptr) - 1) if indptr[node] < indptr[node + 1]]
    drawn = []
    for i in range(num_draws):
        words = stream_words(key, i)
        destination = rows[bounded(words, len(rows))]
        start, stop = int(indptr[destination]), int(indptr[destination + 1])
        drawn.append((int(indices[start + bounded(words, stop - start)]), destination))
    return drawn


def pair_probability(touches: Sequence[tuple[bool, bool, Fraction]], num_draws: int) -> tuple[Fraction, Fraction]:
    """Return (P(second), P(first and second)), that draws bring a node.

    `touches` lists every outcome of a draw as (brings the first, brings the second, probability).
    """
    without_first = sum((p for first, _, p in touches if not first), Fraction(0)) ** num_draws
    without_second = sum((p for _, second, p in touches if not second), Fraction(0)) ** num_draws
    without_both = sum((p for first, second, p in touches if not (first or second)), Fraction(0)) ** num_draws
    return 1 - without_second, 1 - without_first - without_second + without_both


def subgraph_weights(
    indptr: IntArray, indices: IntArray, nodes: IntArray, num_draws: int, *, by_edge: bool
) -> NDArray[np.float64]:
    """(P(v) / P(u and v)) * (share of v's in-edges that are there), by exact arithmetic over all outcomes of a draw."""
    if by_edge:
        outcomes = list(zip(edges_of(indptr, indices), edge_probabilities(indptr, indices), strict=True))
    else:
        outcomes = [((v, v), p) for v, p in enumerate(node_probabilities(indptr, indices))]
    starts, local, _ = induced_subgraph(indptr, indices, nodes)
    weights = []
    for i, node in enumerate(map(int, nodes)):
        share = Fraction(int(starts[i + 1] - starts[i]), max(1, int(indptr[node + 1] - indptr[node])))
        for source in (int(nodes[place]) for place in local[starts[i] : starts[i + 1]]):
            touches = [(source in ends, node in ends, probability) for ends, probability in outcomes]
            alone, together = pair_probability(touches, num_draws)
            weights.append(float(share * alone / together))
    return np.array(weights)
