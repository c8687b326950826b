"""Entries for the inner loops of LABOR."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.ops import _native, reference

from fuzz.draw import Draw
from fuzz.entry import Entry, values
from instruction_sets import SETS


def _scan_arguments(draw: Draw) -> list[Any]:
    ids = draw.ids(draw.integer(0, 70), 1 << 31, draw.one_of(np.int32, np.int64))
    return [ids, draw.key(), draw.random.getrandbits(32), draw.integer(0, 80), draw.one_of(*SETS)]


def _check_scan(arguments: list[Any], answer: Any) -> None:
    high, offsets, kept = answer
    assert len(high) == len(offsets)
    assert (high <= int(arguments[2])).all()
    assert (offsets < len(values(arguments[0]))).all()
    assert len(kept) >= min(int(arguments[3]), len(high))
    assert np.isin(kept, offsets).all()


def _variate_arguments(draw: Draw) -> list[Any]:
    sources = draw.ids(draw.integer(0, 40), 1 << 31, draw.one_of(np.int32, np.int64))
    return [draw.key(), sources, np.array([draw.random.getrandbits(32) for _ in sources], np.uint32)]


def _check_variates(arguments: list[Any], answer: Any) -> None:
    key, sources, numbers = int(arguments[0]), values(arguments[1]).tolist(), values(arguments[2]).tolist()
    # A negative source is what its bits are without a sign.
    right = [reference.labor_variate(key, t % 2**64, number) for t, number in zip(sources, numbers, strict=True)]
    assert answer.tolist() == right


ENTRIES = {
    "labor_scan": Entry(_native.labor_scan, _scan_arguments, _check_scan, frozenset({4}), aligned=True),
    "labor_variates": Entry(_native.labor_variates, _variate_arguments, _check_variates, aligned=True),
}
