"""Entries for the inner loops of weighted picks."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.ops import _native

from fuzz.draw import Draw
from fuzz.entry import Entry, values
from instruction_sets import SETS


def _loops_arguments(draw: Draw) -> list[Any]:
    weights = draw.random.choices([0.0, 1.0, 1e-300, 1e300, 0.5], k=draw.integer(0, 200))
    array = np.array(weights, draw.one_of(np.float32, np.float64))
    return [array, draw.integer(0, 40), draw.key(), draw.key(), draw.integer(0, 210), draw.one_of(*SETS)]


def _check_loops(arguments: list[Any], answer: Any) -> None:
    variates, edges, searched, times, kept = answer
    degree = len(values(arguments[0])) - int(arguments[1])
    assert len(variates) == len(edges) == len(searched) == len(times) == degree
    assert (edges <= degree).all()
    assert (searched < degree).all()
    assert len(kept) >= min(int(arguments[4]), degree)
    assert (kept < degree).all()


def _shares_arguments(draw: Draw) -> list[Any]:
    weights = draw.random.choices([0.0, 1.0, 1e-300, 1e300, -1.0, float("nan"), float("inf")], k=draw.integer(0, 300))
    array = np.array(weights, draw.one_of(np.float32, np.float64))
    return [
        array,
        draw.integer(0, 40),
        draw.key(),
        draw.key(),
        draw.key() >> 32,
        draw.integer(0, 40),
        draw.one_of(*SETS),
    ]


def _check_shares(arguments: list[Any], answer: Any) -> None:
    shares, told = answer
    assert len(told) <= int(arguments[5])
    assert (told < len(shares)).all()
    assert shares[-1] in (0, 65535)


def _race_arguments(draw: Draw) -> list[Any]:
    weights = draw.random.choices([0.0, 1.0, 1e-300, 1e300, 0.5], k=draw.integer(0, 16))
    variates = np.array([draw.key() for _ in range(16)], np.uint64)
    return [np.array(weights, draw.one_of(np.float32, np.float64)), variates, draw.integer(0, 20), draw.one_of(*SETS)]


def _check_race(arguments: list[Any], answer: Any) -> None:
    if answer is not None:
        assert len(answer) <= int(arguments[2])
        assert (np.diff(answer) > 0).all()
        assert (values(arguments[0])[answer] > 0).all()


def _kind_arguments(draw: Draw) -> list[Any]:
    degrees = [draw.one_of(draw.integer(0, 20), draw.integer(0, 300)) for _ in range(draw.integer(0, 30))]
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    weights = draw.weights(int(indptr[-1]))
    nodes = np.array([draw.key() >> 1 for _ in degrees], np.int64)
    return [indptr, weights, nodes, draw.key(), draw.integer(0, 20)]


def _check_kind(arguments: list[Any], answer: Any) -> None:
    if answer is None:
        return
    indptr, fanout = values(arguments[0]), int(arguments[4])
    positions, left = answer
    begins = np.concatenate([[0], np.cumsum(np.minimum(np.diff(indptr), fanout))])
    assert len(positions) == begins[-1]
    assert len(np.unique(left)) == len(left)
    assert ((left >= 0) & (left < len(indptr) - 1)).all()
    for row in set(range(len(indptr) - 1)) - set(left.tolist()):
        picks = positions[begins[row] : begins[row + 1]]
        assert ((picks >= indptr[row]) & (picks < indptr[row + 1])).all()
        assert len(np.unique(picks)) == len(picks)


ENTRIES = {
    "weighted_loops": Entry(_native.weighted_loops, _loops_arguments, _check_loops, frozenset({1, 5}), aligned=True),
    "running_shares": Entry(
        _native.running_shares, _shares_arguments, _check_shares, frozenset({1, 5, 6}), aligned=True
    ),
    "race_at_once": Entry(_native.race_at_once, _race_arguments, _check_race, frozenset({3}), aligned=True),
    "pick_by_kind": Entry(_native.pick_by_kind, _kind_arguments, _check_kind, aligned=True),
}
