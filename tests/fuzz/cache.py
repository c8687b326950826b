"""Entries for the slots of a cache, native and public."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace import ops
from headrace.ops import _native
from headrace.ops.cache.index import POLICIES

from fuzz.draw import Draw
from fuzz.entry import Entry, values

NUM_ROWS = 40


def _all(capacity: Any) -> np.ndarray:
    """As many ids as slots; none where the number of slots is no number, or more than there are rows."""
    return np.arange(capacity if isinstance(capacity, int) and capacity <= NUM_ROWS else 0)


def _made(policy: _native.CachePolicy, capacity: int) -> _native.CacheIndex:
    fixed = _all(capacity) if policy is _native.CachePolicy.STATIC else None
    return _native.CacheIndex(policy, capacity, NUM_ROWS, fixed)


def _ids(draw: Draw) -> Any:
    return draw.ids(draw.integer(0, NUM_ROWS), NUM_ROWS, np.int64)


def _arguments(draw: Draw) -> list[Any]:
    """A policy and a capacity; then two reads."""
    return [draw.one_of(*POLICIES.values()), draw.integer(0, NUM_ROWS), _ids(draw), _ids(draw)]


def _index_arguments(draw: Draw) -> list[Any]:
    policy, capacity = draw.one_of(*POLICIES.values()), draw.integer(0, NUM_ROWS)
    fixed = draw.unique_ids(NUM_ROWS) if policy is _native.CachePolicy.STATIC else None
    levels = draw.one_of(None, np.arange(NUM_ROWS, dtype=np.uint8))
    return [policy, capacity if fixed is None else len(fixed), NUM_ROWS, fixed, levels]


def _reads(policy: Any, capacity: Any, one: Any, other: Any, *, filled: Any = True) -> tuple[Any, Any]:
    """Look up one read while the other one holds its slots, and both again; return the index and the last look-up."""
    index = _made(policy, capacity)
    if policy is _native.CachePolicy.LOOK_AHEAD:
        index.expect(other)
        index.expect(one)
    first = index.look_up(one)
    second = index.look_up(other)
    first.finish(filled)
    second.finish(True)
    index.look_up(other).finish(True)
    return index, index.look_up(one)


def _check_look_up(ids: Any, lookup: Any) -> None:
    """Every position is a hit, a miss or a repeat; missing rows are distinct, and so are the slots that they fill."""
    given = values(ids)
    positions = [lookup.hit_positions, lookup.miss_positions, lookup.repeat_positions]
    assert sorted(np.concatenate(positions)) == list(range(len(given)))
    assert np.array_equal(given[lookup.miss_positions], lookup.miss_ids)
    assert np.array_equal(given[lookup.repeat_positions], given[lookup.repeated_positions])
    for distinct in (lookup.miss_ids, lookup.fill_slots, lookup.fill_positions):
        assert len(np.unique(distinct)) == len(distinct)
    assert np.isin(lookup.fill_positions, lookup.miss_positions).all()


def _check_slots(index: Any) -> None:
    rows = values(index.ids_in_slots)
    assert len(np.unique(rows[rows >= 0])) == (rows >= 0).sum()


def _check_reads(given: list[Any], answer: Any) -> None:
    index, lookup = answer
    _check_look_up(given[2], lookup)
    _check_slots(index)


def _invalidate(policy: Any, capacity: Any, one: Any, other: Any) -> Any:
    index = _made(policy, capacity)
    lookup = index.look_up(one)
    index.invalidate(other)
    lookup.finish(True)
    index.invalidate(other)
    return index


def _check_invalidated(given: list[Any], index: Any) -> None:
    assert not np.isin(values(index.ids_in_slots), values(given[3])).any()
    _check_slots(index)


def _invalidate_all(policy: Any, capacity: Any, one: Any, other: Any) -> Any:
    index = _made(policy, capacity)
    lookup = index.look_up(one)
    index.invalidate_all()
    lookup.finish(True)
    index.look_up(other).finish(True)
    index.invalidate_all()
    return index


def _check_empty(given: list[Any], index: Any) -> None:
    del given
    assert (values(index.ids_in_slots) < 0).all()


def _expect(one: Any, other: Any, capacity: Any) -> Any:
    index = _made(_native.CachePolicy.LOOK_AHEAD, capacity)
    for ids in (one, other, one):
        index.expect(ids)
    for ids in (other, one):
        index.look_up(ids).finish(True)
    return index


def _expect_nothing(one: Any, other: Any, capacity: Any) -> Any:
    index = _expect(one, other, capacity)
    index.expect_nothing()
    index.look_up(other).finish(True)
    return index


def _expect_arguments(draw: Draw) -> list[Any]:
    return [_ids(draw), _ids(draw), draw.integer(0, NUM_ROWS)]


def _public_arguments(draw: Draw) -> list[Any]:
    policy = draw.one_of("mru", *POLICIES)
    return [policy, draw.integer(0, NUM_ROWS), NUM_ROWS, _ids(draw)]


def _public(policy: Any, capacity: Any, num_rows: Any, ids: Any) -> Any:
    fixed = _all(capacity) if policy == "static" else None
    return ops.CacheIndex(policy, capacity, num_rows, ids=fixed).look_up(ids)


NATIVE_ENTRIES = {
    "CacheIndex.__init__": Entry(
        _native.CacheIndex, _index_arguments, lambda given, index: _check_slots(index), frozenset({0}), aligned=True
    ),
    "CacheIndex.look_up": Entry(_reads, _arguments, _check_reads, frozenset({0}), aligned=True),
    "CacheLookup.finish": Entry(
        lambda *arguments: _reads(*arguments, filled=False), _arguments, _check_reads, frozenset({0}), aligned=True
    ),
    "CacheIndex.invalidate": Entry(_invalidate, _arguments, _check_invalidated, frozenset({0}), aligned=True),
    "CacheIndex.invalidate_all": Entry(_invalidate_all, _arguments, _check_empty, frozenset({0}), aligned=True),
    "CacheIndex.expect": Entry(_expect, _expect_arguments, lambda given, index: _check_slots(index), aligned=True),
    "CacheIndex.expect_nothing": Entry(
        _expect_nothing, _expect_arguments, lambda given, index: _check_slots(index), aligned=True
    ),
}
PUBLIC_ENTRIES = {
    "CacheIndex": Entry(_public, _public_arguments, lambda given, lookup: _check_look_up(given[3], lookup))
}
