"""How likely a destination is to pick each of its in-edges, by weight."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.ops.sampling.rules import LaborImportanceRule, LaborRule, NeighborRule

#: Edges that are worked on at once, of one row more where it is longer.
PIECE_EDGES = 1 << 22
_MOST_STEPS = 60


def edge_picks(indptr: Tensor, weights: Tensor, rule: NeighborRule | LaborRule | LaborImportanceRule) -> Tensor:
    """Return the probability of each edge to be picked once its destination is there, float32[num_edges].

    Draws with replacement and LABOR say what it is. Successive draws without replacement have no closed form: theirs
    is that of a race with exponential times, 1 - exp(-c * weight), with the c of each row for which as many edges as
    are picked are expected. It is exact for equal weights, and for long rows.
    """
    starts, values = indptr.numpy(), weights.numpy()
    picks = np.empty(len(values), dtype=np.float32)
    for first, last, edges in edge_pieces(starts):
        rows = np.repeat(np.arange(last - first), np.diff(starts[first : last + 1]))
        picks[edges] = _of_rows(rows, last - first, values[edges].astype(np.float64), rule)
    return torch.from_numpy(picks)


def edge_pieces(starts: NDArray[np.int64]) -> Iterator[tuple[int, int, slice]]:
    """Yield pieces of whole rows that are worked on at once: the first row, that behind the last, and the edges."""
    first = 0
    while first < len(starts) - 1:
        last = int(np.searchsorted(starts, starts[first] + PIECE_EDGES, side="right")) - 1
        last = min(max(last, first + 1), len(starts) - 1)
        yield first, last, slice(int(starts[first]), int(starts[last]))
        first = last


def _of_rows(
    rows: NDArray[np.int64],
    num_rows: int,
    weights: NDArray[np.float64],
    rule: NeighborRule | LaborRule | LaborImportanceRule,
) -> NDArray[np.float64]:
    """Return the probabilities of the edges of some rows; `rows` is each edge's."""

    def summed(terms: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(rows, terms, minlength=num_rows).astype(np.float64, copy=False)

    positive = weights > 0
    counts, sums = summed(positive.astype(np.float64)), summed(weights)
    shares = weights / np.maximum(sums, np.finfo(np.float64).tiny)[rows]
    if rule.fanout < 0:
        return positive.astype(np.float64)
    if isinstance(rule, NeighborRule) and rule.replace:
        return 1 - (1 - np.minimum(shares, 1.0)) ** rule.fanout
    takes_all = positive & (counts <= rule.fanout)[rows]
    if not isinstance(rule, NeighborRule):
        return np.where(takes_all, 1.0, np.minimum(1.0, rule.fanout * shares))
    scales = np.where(counts > rule.fanout, float(rule.fanout), 0.0)
    for _ in range(_MOST_STEPS):  # Newton's steps from below: what is expected is a concave function of the scale
        left = np.exp(-scales[rows] * shares)
        lacking = np.where(counts > rule.fanout, rule.fanout - summed((1 - left) * positive), 0.0)
        steps = lacking / np.maximum(summed(shares * left), np.finfo(np.float64).tiny)
        scales += np.maximum(steps, 0.0)
        if np.all(np.abs(lacking) <= 1e-9 * max(rule.fanout, 1)):
            break
    return np.where(takes_all, 1.0, 1 - np.exp(-scales[rows] * shares))
