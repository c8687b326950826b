"""Slow, obvious NumPy versions of the layer-wise samplers, which look at all destinations of a hop at once.

A continuation of `headrace.ops.reference`, with the same promise: double precision in the written order. Long sums are
taken block by block, see `ordered_sum`; those over a whole hop in integers, see `fixed`, so that they have no order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.ops.reference.hop import Hop
from headrace.ops.reference.random import labor_variate
from headrace.ops.reference.real_variates import negative_log, unit_interval
from headrace.ops.sampling.rules import LaborImportanceRule, LadiesRule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]

SMALLEST_SHARE = 2.0**-500
LARGEST_INVERSE = 2.0**200


def ordered_sum(terms: Sequence[float]) -> float:
    """Blocks of 256 terms from left to right, then the blocks from left to right."""
    total = 0.0
    for begin in range(0, len(terms), 256):
        block = 0.0
        for term in terms[begin : begin + 256]:
            block += term
        total += block
    return total


def fixed(term: float) -> int:
    """Round a number of [0, 1] to a multiple of 2**-52; return it as a multiple of 2**-95."""
    return int((1.0 + term - 1.0) * 2.0**52) << 43


def fixed_square(number: float) -> int:
    """Return the square of a number of [0, 1], of its first 62 bits, as a multiple of 2**-95 that is not below 2."""
    return int(max(number, 2.0**-47) * 2.0**62) ** 2 >> 29


def value_of(multiple: int) -> float:
    """Return a sum of such multiples, which does not depend on the order of summation, as a float."""
    return (multiple >> 63) * 2.0**-32 + (multiple % 2**63) * 2.0**-95


@dataclass(frozen=True)
class LayerEdge:
    """One edge of positive weight into a destination of the hop."""

    position: int
    source: int
    share: float  # P_ts: the weight over the sum of the row's weights
    number: int  # of the row's edges before it from the same source, those of weight 0 too


def layer_edges(
    indptr: IntArray, indices: IntArray, frontier: IntArray, weights: NDArray[Any] | None
) -> list[list[LayerEdge]]:
    """Return the edges of each destination."""
    rows = []
    for node in map(int, frontier):
        positions = range(int(indptr[node]), int(indptr[node + 1]))
        values = [1.0 if weights is None else float(weights[position]) for position in positions]
        total = ordered_sum([value for value in values if value > 0])
        sources = [int(indices[position]) for position in positions]
        rows.append(
            [
                LayerEdge(position, sources[i], max(value / total, SMALLEST_SHARE), sources[:i].count(sources[i]))
                for i, (position, value) in enumerate(zip(positions, values, strict=True))
                if value > 0
            ]
        )
    return rows


# --- LABOR-i and LABOR-* ----------------------------------------------------------------------------------------------


def solve_scale(squares: Sequence[float], inverses: Sequence[float], excess: float, least: float) -> float:
    """Return the c at which the sum of square / min(1, c / inverse) is the sum of the squares plus `excess`.

    It is not below `least`.
    """
    scale, below_one = least, len(squares) + 1
    while True:
        below = [scale <= inverse for inverse in inverses]
        if sum(below) == below_one:
            return scale
        below_one = sum(below)
        parts = list(zip(squares, inverses, below, strict=True))
        numerator = ordered_sum([square * inverse if open_ else 0.0 for square, inverse, open_ in parts])
        denominator = excess + ordered_sum([square if open_ else 0.0 for square, _, open_ in parts])
        scale = max(scale, numerator / denominator)


@dataclass(frozen=True)
class Importance:
    """1 / pi_t by source, c_s by destination, and E|T| after each round."""

    inverse: dict[int, float]
    scales: list[float]
    expected_sizes: list[float]


def labor_importance(rows: list[list[LayerEdge]], rule: LaborImportanceRule, *, weighted: bool) -> Importance:
    """Go through the rounds of LABOR-i; round 0 is LABOR-0."""
    fanout = rule.fanout
    inverse = {edge.source: 1.0 for row in rows for edge in row}  # by first occurrence

    def scale(row: list[LayerEdge], inverse_of: Callable[[LayerEdge], float], least: float = 0.0) -> float:
        if fanout == -1 or len(row) <= fanout:
            return np.inf
        if fanout == 0:
            return 0.0
        degree = float(len(row))
        if weighted:
            squares, excess = [edge.share * edge.share for edge in row], 1.0 / fanout - 1.0 / degree
        else:  # without the factor 1 / degree**2 that all terms have
            squares, excess = [1.0] * len(row), degree * (degree - fanout) / fanout
        return solve_scale(squares, [inverse_of(edge) for edge in row], excess, least)

    def current_inverse(edge: LayerEdge) -> float:
        return inverse[edge.source]

    def by_scale(c: float, edge: LayerEdge) -> float:
        del edge
        return c

    def by_scale_and_share(c: float, edge: LayerEdge) -> float:
        return c * edge.share

    def spread(factor: Callable[[float, LayerEdge], float]) -> dict[int, float]:
        largest = dict.fromkeys(inverse, 0.0)
        for row, c in zip(rows, scales, strict=True):
            for edge in row:
                largest[edge.source] = max(largest[edge.source], factor(c, edge))
        return {
            t: min(LARGEST_INVERSE, max(1.0, inverse[t] / largest[t] if largest[t] > 0 else np.inf)) for t in inverse
        }

    if weighted:
        scales = [scale(row, lambda edge: 1.0 / edge.share) for row in rows]
        following = spread(by_scale_and_share)
    else:
        scales = [fanout / len(row) if 0 <= fanout < len(row) else np.inf for row in rows]
        following = spread(by_scale)
    sizes = [value_of(sum(fixed(1.0 / value) for value in following.values()))]
    while True:
        inverse = following
        # As no pi grows from round to round, no c falls, but for rounding, and none exceeds 1; but the first one, by
        # weight, was of P in place of pi.
        fresh = weighted and len(sizes) == 1
        scales = [
            scale(row, current_inverse, 0.0 if fresh else min(c, 1.0)) for row, c in zip(rows, scales, strict=True)
        ]
        following = spread(by_scale)
        sizes.append(value_of(sum(fixed(1.0 / value) for value in following.values())))
        done = sizes[-1] >= (1.0 - 1e-4) * sizes[-2] if rule.importance == "*" else len(sizes) > rule.importance
        if done:
            return Importance(inverse, scales, sizes)


# --- LADIES and PLADIES -----------------------------------------------------------------------------------------------


def one_minus_exp(x: float) -> float:
    """Return 1 - exp(-x) by a fixed sequence of operations: halve to 1/2, Taylor series, f(2x) = f(x) (2 - f(x))."""
    if not x < 40.0:
        return 1.0
    halvings = 0
    while x > 0.5:
        x, halvings = x * 0.5, halvings + 1
    series = 1.0
    for n in range(15, 1, -1):
        series = 1.0 - x / n * series
    value = x * series
    for _ in range(halvings):
        value = value * (2.0 - value)
    return value


@dataclass(frozen=True)
class Draw:
    """q_t, 1 / probability and whether it is drawn, by source."""

    scores: dict[int, float]
    inverse: dict[int, float]
    drawn: dict[int, bool]


def draw_ladies(rows: list[list[LayerEdge]], rule: LadiesRule, key: int) -> Draw:
    """Draw sources for the whole layer."""
    sums = {edge.source: 0 for row in rows for edge in row}  # by first occurrence
    for row in rows:
        for edge in row:
            sums[edge.source] += fixed_square(edge.share)
    scores = {t: value_of(multiple) for t, multiple in sums.items()}
    if rule.size == -1 or len(scores) <= rule.size:
        return Draw(scores, dict.fromkeys(scores, 1.0), dict.fromkeys(scores, True))
    variates = {t: unit_interval(labor_variate(key, t)) for t in scores}
    if rule.poisson:
        scale = _poisson_scale(list(sums.values()), rule.size)
        probabilities = {t: min(1.0, scale * q) for t, q in scores.items()}
        drawn = {t: variates[t] <= probabilities[t] for t in scores}
        return Draw(scores, {t: 1.0 / p if p > 0 else np.inf for t, p in probabilities.items()}, drawn)
    times = {t: negative_log(variates[t]) / q for t, q in scores.items()}
    arrivals = sorted(times, key=lambda t: (times[t], t))
    tau = times[arrivals[rule.size]]
    first = set(arrivals[: rule.size])
    return Draw(scores, {t: 1.0 / one_minus_exp(q * tau) for t, q in scores.items()}, {t: t in first for t in scores})


def _poisson_scale(sums: Sequence[int], size: int) -> float:
    """Return the c at which the sum of min(1, c * score) is `size`."""
    scale, before = 0.0, len(sums) + 1
    while True:
        below_one = [multiple for multiple in sums if scale * value_of(multiple) <= 1.0]
        if len(below_one) == before:
            return scale
        before = len(below_one)
        if below_one:
            scale = max(scale, (size - (len(sums) - before)) / value_of(sum(below_one)))


# --- a hop ------------------------------------------------------------------------------------------------------------


def sample_layer(
    indptr: IntArray,
    indices: IntArray,
    frontier: IntArray,
    rule: LaborImportanceRule | LadiesRule,
    key: Any,
    *,
    weights: NDArray[Any] | None = None,
) -> Hop:
    """Pick in-edges of the frontier by a layer-wise rule."""
    rows = layer_edges(indptr, indices, frontier, weights)
    if isinstance(rule, LadiesRule):
        draw = draw_ladies(rows, rule, key)
        inverses = [[draw.inverse[edge.source] if draw.drawn[edge.source] else None for edge in row] for row in rows]
    else:
        importance = labor_importance(rows, rule, weighted=weights is not None)
        inverses = []
        for row, scale in zip(rows, importance.scales, strict=True):
            inverses.append([])
            for edge in row:
                r = unit_interval(labor_variate(key, edge.source, edge.number))
                inverse = importance.inverse[edge.source]
                inverses[-1].append(max(1.0, inverse / scale) if r * inverse <= scale else None)
    starts, kept, importance_weights = [0], [], []
    for row, row_inverses in zip(rows, inverses, strict=True):
        picks = [(edge, inverse) for edge, inverse in zip(row, row_inverses, strict=True) if inverse is not None]
        values = [inverse if weights is None else edge.share * inverse for edge, inverse in picks]
        total = ordered_sum(values)
        kept += [edge for edge, _ in picks]
        importance_weights += [np.float32(value * len(picks) / total) for value in values]
        starts.append(len(kept))
    return Hop(
        np.array(starts, np.int64),
        np.array([edge.source for edge in kept], np.int64),
        np.array([edge.position for edge in kept], np.int64),
        np.array(importance_weights, np.float32),
    )
