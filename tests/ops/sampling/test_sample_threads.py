"""Samples and threads: as many as there are, the same bits, the same error, and nobody disturbed."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from headrace.ops import BlockSampler, InputError, LaborRule, NeighborRule, gather_rows

from samples import BIG_RULES, FIELDS, same


@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
@pytest.mark.parametrize("rule", BIG_RULES, ids=str)
def test_threads_do_not_change_a_bit(skewed, rule, weighted):
    """Frontier of 5,000 nodes: ten chunks, on one thread one after the other."""
    indptr, indices, edge_ids = skewed
    weights = torch.rand(len(indices), generator=torch.Generator().manual_seed(0)) if weighted else None
    sampler = BlockSampler(indptr, indices, edge_ids, weights)
    one, *others = [sampler.sample(torch.arange(5_000), [rule, rule], [1, 2], num_threads=n) for n in (1, 2, 4)]
    for other in others:
        assert torch.equal(one.n_id, other.n_id)
        for a, b in zip(one.hops, other.hops, strict=True):
            assert all(same(getattr(a, field), getattr(b, field)) for field in FIELDS)
    for threads in (1, 2):
        bare = sampler.sample(torch.arange(5_000), [rule, rule], [1, 2], edge_ids=False, num_threads=threads)
        assert torch.equal(one.n_id, bare.n_id)
        for a, b in zip(one.hops, bare.hops, strict=True):
            assert b.edge_ids is None
            assert all(same(getattr(a, field), getattr(b, field)) for field in FIELDS if field != "edge_ids")


def test_concurrent_calls_do_not_disturb_each_other(skewed):
    sampler = BlockSampler(*skewed)

    def sample(seed):
        seeds = torch.arange(seed, 5_000, 2)  # so many that calls start threads of their own
        return sampler.sample(seeds, [NeighborRule(10), LaborRule(10)], [seed, seed + 1], num_threads=1 + seed % 2)

    expected = [sample(seed) for seed in range(12)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            for one, other in zip(expected, pool.map(sample, range(12)), strict=True):
                assert torch.equal(one.n_id, other.n_id)
                assert torch.equal(one.hops[1].indices, other.hops[1].indices)


@pytest.mark.parametrize("damage", ["late row", "neighbor", "both"])
def test_threads_meet_the_same_error_first(damage):
    indptr, indices = np.arange(0, 40_004, 4), np.arange(40_000) % 10_000
    if damage != "neighbor":
        indptr[9_001] = 1 << 40
    if damage != "late row":
        indices[20_000:30_000:999] = -3 - np.arange(11)
    seeds = torch.arange(10_000)
    messages = []
    for threads in (1, 2, 4):
        sampler = BlockSampler(indptr, indices)
        with pytest.raises(InputError) as caught:
            sampler.sample(seeds, [NeighborRule(2)], [0], num_threads=threads)
        messages.append(str(caught.value))
        assert len(sampler.sample(torch.arange(10), [NeighborRule(2)], [0], num_threads=threads).n_id) >= 10
    assert len(set(messages)) == 1


def test_threads_leave_the_callers_cores_alone(skewed):
    """Helpers are kept off their caller's core; the caller must not be moved or pinned for it."""
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this system does not tell which cores a thread may use")
    before = os.sched_getaffinity(0)
    x, ids = torch.zeros(1, 1, dtype=torch.uint8), torch.zeros(8_200, dtype=torch.int64)
    for _ in range(300):
        gather_rows(x, ids, num_threads=8)
    assert os.sched_getaffinity(0) == before


NO_HELPERS = """
import resource, threading, torch
from headrace.ops import BlockSampler, NeighborRule

sampler = BlockSampler(torch.arange(0, 120_001, 3), torch.arange(120_000) * 7 % 40_000)
seeds, rules = torch.arange(10_000), [NeighborRule(2), NeighborRule(2)]
expected = sampler.sample(seeds, rules, [1, 2], num_threads=1)
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 2**29, now + 2**29))
try:
    threading.Thread(target=print).start()
except RuntimeError:
    sampled = sampler.sample(seeds, rules, [1, 2], num_threads=4)
    print(torch.equal(sampled.n_id, expected.n_id))
"""


@pytest.mark.slow
@pytest.mark.uninstrumented
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the memory of a process")
def test_a_process_that_may_start_no_threads_samples_alone():
    """The stack of each would be a gigabyte, of which there is half a one left."""
    resource = pytest.importorskip("resource")
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if hard != resource.RLIM_INFINITY and hard < 2**30:
        pytest.skip("this system limits stacks to less than a gigabyte")
    command = ["sh", "-c", 'ulimit -s 1048576 && exec "$@"', "sh", sys.executable, "-c", NO_HELPERS]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"
