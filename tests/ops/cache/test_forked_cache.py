"""In a forked process a cache begins empty, whatever the parent was doing with it."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from headrace import ops
from headrace.ops.cache.index import POLICIES

from forked import in_child

NUM_ROWS = 200_000

pytestmark = [
    pytest.mark.uninstrumented,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def made(policy, capacity, num_rows=NUM_ROWS):
    return ops.CacheIndex(policy, capacity, num_rows, ids=np.arange(capacity) if policy == "static" else None)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_a_look_up_in_another_thread_does_not_stop_the_child(policy):
    index = made(policy, 50_000)
    reads = [np.random.default_rng(seed).integers(0, NUM_ROWS, 100_000) for seed in range(4)]
    over = threading.Event()

    def read():
        while not over.is_set():
            for ids in reads:
                if policy == "look-ahead":
                    index.expect(ids)
                index.look_up(ids).finish(True)

    def check():
        assert len(index.look_up(np.arange(10)).miss_ids) == 10
        index.invalidate(np.arange(10))
        assert index.num_bytes > 0

    busy = threading.Thread(target=read)
    busy.start()
    try:
        for _ in range(8):
            assert in_child(check) == 0
    finally:
        over.set()
        busy.join()


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_held_found_expected_or_counted_in_the_child(policy):
    index = made(policy, 3, 20)
    ids = np.arange(3)
    index.look_up(ids[:1]).finish(True)
    if policy == "look-ahead":
        index.expect(np.array([7, 1]))
    reading = index.look_up(ids)

    def check():
        assert index.ids_in_slots.tolist() == [-1, -1, -1]
        assert index.num_expected == 0
        assert set(index.counts().values()) == {0}
        for hits in (0, 3):
            lookup = index.look_up(ids)
            assert (len(lookup.hit_slots), len(lookup.fill_slots)) == (hits, 3 - hits)
            lookup.finish(True)
        reading.finish(True)  # gives back nothing of what is held here
        assert index.counts()["hits"] == 3
        assert in_child(lambda: index.look_up(ids).finish(True)) == 0

    assert in_child(check) == 0
    reading.finish(True)
    assert index.look_up(ids).miss_ids.tolist() == []


def test_scores_stay_in_the_child():
    index = ops.CacheIndex("look-ahead", 1, 3, scores=np.array([1.0, 3.0, 2.0]))

    def check():
        for row in (1, 0, 2):
            index.look_up(np.array([row])).finish(True)
        assert index.ids_in_slots.tolist() == [1]

    assert in_child(check) == 0
