"""Kernels share one pool of sleeping threads: across calls, callers, forks and the end of the process."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace.ops import BlockSampler, NeighborRule, TierSizes, _native, check_csc, gather_rows, locate_rows
from headrace.ops.errors import InputError
from headrace.ops.features.disk_rows import DiskRows

from copies import run_program

NUM_NODES = 20_000
DEGREE = 20
RULES, KEYS = [NeighborRule(10), NeighborRule(10)], [1, 2]
SEEDS = torch.arange(0, NUM_NODES, 4)

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture(scope="module")
def sampler():
    indices = np.random.default_rng(0).integers(0, NUM_NODES, NUM_NODES * DEGREE)
    return BlockSampler(torch.arange(0, NUM_NODES * DEGREE + 1, DEGREE), torch.from_numpy(indices))


def sampled(sampler, num_threads):
    batch = sampler.sample(SEEDS, RULES, KEYS, num_threads=num_threads)
    return [batch.n_id.numpy(), *(hop.indices.numpy() for hop in batch.hops)]


def same(one, other):
    # Of NumPy, as torch may wait in a forked process for threads of its own.
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def kernel_threads():
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}


@on_linux
def test_calls_share_threads_that_stay(sampler):
    rows = torch.ones(NUM_NODES, 50)  # torch may start threads of its own
    sampled(sampler, 5)
    there = kernel_threads()
    assert _native.threads_in_pool() >= 4
    for num_threads in (5, 3, 2, 1):
        sampled(sampler, num_threads)
    gather_rows(rows, SEEDS, num_threads=5)
    assert kernel_threads() == there


@pytest.mark.slow
@on_linux
def test_threads_that_one_call_alone_asked_for_end(tmp_path):
    """Also while smaller calls wake threads all the time."""
    path, width, num_rows = tmp_path / "rows", 8192, 400
    path.write_bytes(bytes(width * num_rows))
    with path.open("rb") as file:
        options = {"engine": "threads", "queue_depth": 1024, "gap_bytes": 0}
        shape = {"start": 0, "shape": (num_rows, width), "dtype": torch.uint8}
        rows = DiskRows(file.fileno(), name="rows", **shape, **options)
    rows.read(torch.arange(0, num_rows, 2))
    assert _native.threads_in_pool() > 100
    _native.share_all_work(True)
    try:
        until = time.monotonic() + 20
        while _native.threads_in_pool() > 2 and time.monotonic() < until:
            locate_rows(torch.arange(5), torch.arange(5), TierSizes(host=5), num_threads=3)
    finally:
        _native.share_all_work(False)
    assert _native.threads_in_pool() == 2
    until = time.monotonic() + 20
    while _native.threads_in_pool() and time.monotonic() < until:
        time.sleep(0.05)
    assert _native.threads_in_pool() == 0
    there = kernel_threads()
    rows.read(torch.arange(3))
    assert len(kernel_threads()) <= len(there) + 2


@on_linux
def test_threads_sleep_and_may_run_anywhere(sampler):
    expected = sampled(sampler, 5)
    allowed = os.sched_getaffinity(0)
    assert all(os.sched_getaffinity(thread) == allowed for thread in kernel_threads())
    # Two looks at what each thread ran, as others may just be starting or ending.
    time.sleep(0.2)

    def times():
        return {thread: time_of(thread) for thread in kernel_threads() if thread != threading.get_native_id()}

    before = times()
    time.sleep(0.5)
    assert sum(ticks - before.get(thread, ticks) for thread, ticks in times().items()) <= 2
    assert same(sampled(sampler, 5), expected)


def time_of(thread):
    """Ticks, mostly of 10 ms, for which a thread of this process has run."""
    fields = Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_many_threads_for_few_tasks(sampler):
    expected = sampled(sampler, 1)
    before = _native.threads_in_pool()
    assert same(sampled(sampler, 4096), expected)
    assert _native.threads_in_pool() <= max(before, NUM_NODES // 512)


def test_many_threads_for_few_nodes():
    """Each of a few nodes is looked at: of 4096 threads all but these would start to find nothing."""
    before = _native.threads_in_pool()
    _native.share_all_work(True)
    try:
        locate_rows(torch.arange(5), torch.arange(5), TierSizes(host=5), num_threads=4096)
        locate_rows(torch.arange(5), torch.arange(0), TierSizes(host=5), num_threads=4096)
    finally:
        _native.share_all_work(False)
    assert _native.threads_in_pool() <= max(before, 4)


# In a process that has no thread of the pool, whose copies do the work.
COPIES = """
import os, signal, sys
import torch
from headrace.ops import BlockSampler, LaborRule, NeighborRule, _native, gather_rows
{work}
assert _native.threads_in_pool() == 0
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        globals()[name]()  # and then, as any process, what Python does at its end
        break
    print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def run_copies(work, *names):
    """Run functions each in a process of its own, and return how these end."""
    done = run_program(COPIES.format(work=work), *names)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split() for line in done.stdout.splitlines()]


# With replacement a row has more picks than edges.
LITTLE_WORK = """
def little():
    sampler = BlockSampler(torch.arange(0, 100_001, 10), torch.arange(100_000) % 10_000)
    for rule in (NeighborRule(10), LaborRule(10)):
        sampler.sample(torch.arange(100), [rule, rule], [1, 2], num_threads=16)
    gather_rows(torch.ones(10_000, 16), torch.arange(1000), num_threads=16)
    assert _native.threads_in_pool() == 0, _native.threads_in_pool()
    sampler.sample(torch.arange(10_000), [NeighborRule(10)] * 2, [1, 2], num_threads=16)
    assert 0 < _native.threads_in_pool() < 15, _native.threads_in_pool()

def many_draws():
    sampler = BlockSampler(torch.arange(10_001), torch.arange(10_000))
    sampler.sample(torch.arange(2_000), [NeighborRule(500)], [1], num_threads=2)
    assert _native.threads_in_pool() == 0, _native.threads_in_pool()
    sampler.sample(torch.arange(2_000), [NeighborRule(500, replace=True)], [1], num_threads=2)
    assert _native.threads_in_pool() == 1, _native.threads_in_pool()
"""


@pytest.mark.slow
@needs_fork
def test_little_work_wakes_nobody_and_many_draws_are_work_whatever_the_degree():
    assert run_copies(LITTLE_WORK, "little", "many_draws") == [["little", "0"], ["many_draws", "0"]]


def test_calls_at_once(sampler):
    expected = sampled(sampler, 1)
    right = []

    def call(num_threads):
        right.extend(same(sampled(sampler, num_threads), expected) for _ in range(10))

    callers = [threading.Thread(target=call, args=(2 + i,)) for i in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert right == [True] * 60


def test_the_first_error_is_raised():
    indptr = torch.arange(0, 100_001)
    indptr[7_000], indptr[90_000] = 6_000, 80_000
    indices = torch.zeros(100_000, dtype=torch.int64)
    for num_threads in (1, 2, 3, 16):
        with pytest.raises(InputError, match=r"indptr\[6999\]"):
            check_csc(indptr, indices, 100_000, num_threads=num_threads)


@pytest.mark.slow
@pytest.mark.uninstrumented  # the sanitizer's allocator has locks of its own, which another thread may hold at a fork
@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_pool_of_its_own(sampler):
    expected = sampled(sampler, 3)
    over = threading.Event()

    def call():
        while not over.is_set():
            sampled(sampler, 3)

    busy = threading.Thread(target=call)
    busy.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest-timeout's would wait for native code to return
                signal.alarm(60)  # which ends a child that waits for a lock
                # Nothing that Python would clean up: the child is a copy in the middle of the tests.
                fresh = _native.threads_in_pool() == 0
                right = same(sampled(sampler, 3), expected)
                os._exit(0 if fresh and right and _native.threads_in_pool() == 2 else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        over.set()
        busy.join()


ENDS = """
def returns():
    _native.share_all_work(True)
    sampler = BlockSampler(torch.arange(0, 200_001, 10), torch.arange(200_000) % 20_000)
    sampler.sample(torch.arange(20_000), [NeighborRule(10)] * 3, [1, 2, 3], num_threads=4)
    assert _native.threads_in_pool() == 3

def exits():
    returns()
    raise SystemExit(0)

def is_killed():
    returns()
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.thorough
@needs_fork
def test_the_process_ends_right_after_a_call():
    ends = [["returns", "0"], ["exits", "0"], ["is_killed", "-15"]] * 3
    assert run_copies(ENDS, *(name for name, _ in ends)) == ends
