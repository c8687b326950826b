"""A process forked while a thread makes the tables of a sampler samples on, with threads of its own."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest
import torch

from headrace.ops import BlockSampler, Compactor, LaborRule, NeighborRule

from forked import in_child

NUM_NODES, DEGREE = 200_000, 20
SEEDS = torch.arange(0, 2_000)
RULES = {"weighted": NeighborRule(5), "labor": LaborRule(5)}

pytestmark = [
    pytest.mark.uninstrumented,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def arrays():
    random = np.random.default_rng(0)
    indices = random.integers(0, NUM_NODES, NUM_NODES * DEGREE)
    weights = random.random(NUM_NODES * DEGREE) + 0.5
    return torch.arange(0, NUM_NODES * DEGREE + 1, DEGREE), torch.from_numpy(indices), torch.from_numpy(weights)


def fresh(arrays, kind):
    indptr, indices, weights = arrays
    return BlockSampler(indptr, indices, weights=weights if kind == "weighted" else None)


def sampled(sampler, kind, num_threads=1):
    batch = sampler.sample(SEEDS, [RULES[kind]] * 2, [1, 2], num_threads=num_threads)
    return [batch.n_id.numpy(), *(block.indices.numpy() for block in batch.hops)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", RULES)
def test_the_first_call_in_another_thread_does_not_stop_the_child(arrays, kind):
    expected = sampled(fresh(arrays, kind), kind)
    for round_ in range(6):
        sampler, begins = fresh(arrays, kind), threading.Event()

        def work(sampler=sampler, begins=begins):
            begins.set()
            sampled(sampler, kind)

        def check(sampler=sampler):
            for _ in range(2):  # by the tables that it makes, and by those that it keeps
                got = sampled(sampler, kind, num_threads=3)
                assert all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))

        thread = threading.Thread(target=work)
        thread.start()
        try:
            begins.wait()
            time.sleep(0.002 * round_)
            assert in_child(check) == 0
        finally:
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("kind", RULES)
def test_forks_at_any_moment_of_a_loop(arrays, kind):
    newest, over = [fresh(arrays, kind)], threading.Event()
    expected = sampled(newest[0], kind)

    def work():
        while not over.is_set():
            newest[0] = fresh(arrays, kind)
            for _ in range(3):
                sampled(newest[0], kind, num_threads=3)

    def check():
        got = sampled(newest[0], kind, num_threads=3)
        assert all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))
        assert newest[0].scratch_bytes > 0

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(12):
            assert in_child(check) == 0
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
def test_forks_while_nodes_are_renumbered():
    """The maps that calls use one after the other have a lock of their own."""
    compactor, over = Compactor(NUM_NODES), threading.Event()
    seeds, neighbors = np.arange(4), np.array([9, 7, 9, 3])

    def work():
        while not over.is_set():
            compactor.compact(seeds, neighbors)

    def check():
        for _ in range(3):
            assert compactor.compact(seeds, neighbors).ids.tolist() == [0, 1, 2, 3, 9, 7]

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(12):
            assert in_child(check) == 0
    finally:
        over.set()
        for thread in threads:
            thread.join()
