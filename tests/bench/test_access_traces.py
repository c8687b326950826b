"""The optimum of a trace is the fewest misses of all choices, and what look-ahead with a long window has."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from headrace import ops


def fewest(batches, capacity):
    """By trying every set of rows that could be kept behind every batch."""
    costs = {frozenset(): 0}
    for ids in batches:
        following = {}
        for kept, cost in costs.items():
            missed = cost + len(ids) - len(kept & set(ids.tolist()))
            at_hand = kept | set(ids.tolist())
            for chosen in combinations(sorted(at_hand), min(capacity, len(at_hand))):
                key = frozenset(chosen)
                following[key] = min(following.get(key, missed), missed)
        costs = following
    return min(costs.values())


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("capacity", [0, 1, 3])
def test_the_optimum_is_the_best_of_all_choices_and_look_ahead_attains_it(bench, seed, capacity):
    belady = bench("access_traces").belady
    random = np.random.default_rng(seed)
    batches = [random.permutation(7)[: random.integers(1, 5)] for _ in range(9)]
    optimum = belady(batches, 7, capacity)
    assert optimum == fewest(batches, capacity)
    index = ops.CacheIndex("look-ahead", capacity, 7)
    for ids in batches:
        index.expect(ids)
    for ids in batches:
        index.look_up(ids).finish(True)
    assert index.counts()["misses"] == optimum


def test_look_ahead_within_a_window_is_near_the_optimum_and_better_than_every_online_policy(bench):
    belady = bench("access_traces").belady
    random = np.random.default_rng(0)
    batches = [np.unique((random.random(60) ** 3 * 2000).astype(np.int64)) for _ in range(300)]
    num_reads = sum(map(len, batches))
    for capacity in (40, 100, 200, 400, 800):
        missed = {}
        for policy in ("lru", "clock", "s3-fifo", "sieve", "look-ahead"):
            index = ops.CacheIndex(policy, capacity, 2000)
            for number, ids in enumerate(batches):
                if policy == "look-ahead":
                    for later in batches[:64] if number == 0 else batches[number + 63 : number + 64]:
                        index.expect(later)
                index.look_up(ids).finish(True)
            missed[policy] = index.counts()["misses"] / num_reads
        own = missed.pop("look-ahead")
        assert own < min(missed.values())
        assert own <= 1.03 * belady(batches, 2000, capacity) / num_reads
