"""Entries for the inner loops of LABOR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.ops import _native, reference

from fuzz.draw import Draw
from fuzz.entry import Entry, values
from instruction_sets import SETS


def _keys(draw: Draw) -> Any:
    """A key, or two of which the variates are blended."""
    step = draw.integer(0, 20)
    return draw.key() if draw.chance(0.5) else _native.VariateKeys(draw.key(), draw.key(), step, step + 1)


def _key_arguments(draw: Draw) -> list[Any]:
    step = draw.random.getrandbits(draw.one_of(3, 53, 64))
    return [draw.key(), draw.key(), step, step + draw.integer(0, 3)]


def _scan_arguments(draw: Draw) -> list[Any]:
    ids = draw.ids(draw.integer(0, 70), 1 << 31, draw.one_of(np.int32, np.int64))
    return [ids, _keys(draw), draw.random.getrandbits(32), draw.integer(0, 80), draw.one_of(*SETS)]


def _check_scan(arguments: list[Any], answer: Any) -> None:
    high, offsets, kept = answer
    assert len(high) == len(offsets)
    assert (high <= int(arguments[2])).all()
    assert (offsets < len(values(arguments[0]))).all()
    assert len(kept) >= min(int(arguments[3]), len(high))
    assert np.isin(kept, offsets).all()


def _cosine(*arguments: Any) -> float:
    return _native.VariateKeys(*arguments).cosine


def _sine(*arguments: Any) -> float:
    return _native.VariateKeys(*arguments).sine


def _check_turn(which: int) -> Callable[[list[Any], Any], None]:
    def check(arguments: list[Any], answer: Any) -> None:
        step, num_steps = float(int(arguments[2])), float(int(arguments[3]))
        assert answer == reference.turn(step / num_steps)[which]

    return check


def _variate_arguments(draw: Draw) -> list[Any]:
    sources = draw.ids(draw.integer(0, 40), 1 << 31, draw.one_of(np.int32, np.int64))
    return [_keys(draw), sources, np.array([draw.random.getrandbits(32) for _ in sources], np.uint32)]


def _check_variates(arguments: list[Any], answer: Any) -> None:
    key, sources, numbers = arguments[0], values(arguments[1]).tolist(), values(arguments[2]).tolist()
    if isinstance(key, _native.VariateKeys):  # which does not say what they are
        assert len(answer) == len(sources)
        return
    # A negative source is what its bits are without a sign.
    right = [reference.labor_variate(int(key), t % 2**64, number) for t, number in zip(sources, numbers, strict=True)]
    assert answer.tolist() == right


ENTRIES = {
    "VariateKeys.__init__": Entry(_native.VariateKeys, _key_arguments, lambda given, answer: None),
    "VariateKeys.cosine": Entry(_cosine, _key_arguments, _check_turn(0)),
    "VariateKeys.sine": Entry(_sine, _key_arguments, _check_turn(1)),
    "labor_scan": Entry(_native.labor_scan, _scan_arguments, _check_scan, frozenset({4}), aligned=True),
    "labor_variates": Entry(_native.labor_variates, _variate_arguments, _check_variates, aligned=True),
}
