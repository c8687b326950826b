"""Which edges of one row a rule picks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.ops.reference.random import bounded, edge_variates, stream_variates, stream_words
from headrace.ops.reference.real_variates import negative_log, unit_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headrace.ops.random.dependency import BlendedKey

    IntArray = NDArray[np.int64]


def pick_uniform(node: int, degree: int, fanout: int, key: int, *, replace: bool) -> list[int]:
    """Offsets within the row of `node` that a NeighborRule picks."""
    if fanout == -1 or (degree <= fanout and not replace):
        return list(range(degree))
    if degree == 0:
        return []
    words = stream_words(key, node)
    if replace:
        return [bounded(words, degree) for _ in range(fanout)]
    picks: list[int] = []
    for last in range(degree - fanout, degree):  # Robert Floyd
        drawn = bounded(words, last + 1)
        picks.append(last if drawn in picks else drawn)
    return picks


def pick_labor(sources: IntArray, fanout: int, key: int | BlendedKey, *, exact: bool) -> list[int]:
    """Offsets within the row of in-neighbours `sources` that a LaborRule picks."""
    degree = len(sources)
    if fanout == -1 or degree <= fanout:
        return list(range(degree))
    variates = edge_variates(key, sources)
    if exact:
        return sorted(sorted(range(degree), key=lambda i: (variates[i], i))[:fanout])
    return [i for i in range(degree) if (variates[i] * degree) >> 64 < fanout]


def pick_weighted(node: int, row: NDArray[np.float64], fanout: int, key: int, *, replace: bool) -> list[int]:
    """Offsets that a NeighborRule picks by the weights of a row.

    Draw i takes variate i of the destination and falls on the first edge whose running sum of weights exceeds
    u * total. Without replacement draws that fall on an edge already picked do not count. There are none where the row
    has less than half the fan-out more edges than that, elsewhere at most 4 * fanout + 16; then the other edges race:
    edge i, with the i-th of the variates behind those of the draws, arrives at -ln(u) / weight.
    """
    positive = [i for i in range(len(row)) if row[i] > 0]
    if fanout == -1 or (len(row) <= fanout and not replace):
        return positive
    if not positive:
        return []
    variates = stream_variates(key, node)
    sums = running_sums(row)

    def draw() -> int:
        target = unit_interval(next(variates)) * sums[-1]
        return next((i for i in range(len(row)) if sums[i] > target), sums.index(sums[-1]))

    if replace:
        return [draw() for _ in range(fanout)]
    picks: list[int] = []
    degree = len(row)
    if fanout > 0 and 2 * (degree - fanout) >= fanout:
        for _ in range(4 * fanout + 16):
            pick = draw()
            if pick not in picks:
                picks.append(pick)
            if len(picks) == fanout:
                return picks
    units = [unit_interval(next(variates)) for _ in row]
    race = {i: negative_log(units[i]) / float(row[i]) for i in positive if i not in picks}
    return picks + sorted(sorted(race, key=lambda i: (race[i], i))[: fanout - len(picks)])


def pick_labor_weighted(
    sources: IntArray, row: NDArray[np.float64], fanout: int, key: int | BlendedKey, *, exact: bool
) -> tuple[list[int], list[np.float32]]:
    """Offsets that a LaborRule picks by the weights of a row, and the Hajek weights of the picked edges."""
    positive = [i for i in range(len(row)) if row[i] > 0]
    total = running_sums(row)[-1] if len(row) else 0.0
    variates = [unit_interval(variate) for variate in edge_variates(key, sources)]
    take_all = fanout == -1 or len(positive) <= fanout
    if take_all:
        picks = positive
    elif exact:
        picks = sorted(sorted(positive, key=lambda i: (variates[i] / float(row[i]), i))[:fanout])
    else:
        picks = [i for i in positive if variates[i] <= fanout * float(row[i]) / total]
    # weight / probability, where probability = min(1, fanout * weight / total)
    inverse = [float(row[i]) if take_all else max(float(row[i]), total / max(fanout, 1)) for i in picks]
    kept = 0.0
    for value in inverse:
        kept += value
    return picks, [np.float32(value * len(picks) / kept) for value in inverse]


def running_sums(row: NDArray[np.float64]) -> list[float]:
    """Sum the weights of a row up to and including each edge."""
    sums, total = [], 0.0
    for weight in row:
        total += float(weight)
        sums.append(total)
    return sums
