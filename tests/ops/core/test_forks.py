"""What threads share may be in use when another one forks: the child goes on with it."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import headrace as hr
from headrace.ops.forks import ProcessLock, cached_property

from forked import in_child

ROOT = Path(__file__).parents[3]


def needs_fork(test):
    """Mark a test that forks while threads run."""
    test = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")(pytest.mark.uninstrumented(test))
    return pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")(test)


#: Locks that no child may need, by file. All others are `ProcessLock`, in C++ `PerProcess`.
PLAIN = {
    # The child has no CUDA: torch refuses it after a fork.
    "cuda/bus.py": 1,
    "cuda/pinned_ranges.py": 1,
    "cuda/streams.py": 1,
    "ops/cache/line_cache.py": 1,
    "pipeline/lowered/gpu/fetch_rows.py": 1,
    "pipeline/storage/peers.py": 1,
    "pipeline/storage/rows_on_gpu.py": 1,
    # Made anew in the child by a handler of the fork.
    "pipeline/distributed/generations.py": 2,
    "pipeline/distributed/job_store.py": 2,
    "pipeline/distributed/leaving.py": 2,
    "pipeline/run/shutdown.py": 1,
    # Ranks that are threads have stayed in the parent, and an iteration with threads is refused in the child.
    "pipeline/distributed/local_comm.py": 3,
    "pipeline/run/prefetch_node.py": 2,
}

#: Mutexes of the core that are neither `PerProcess` nor of a call.
NATIVE = {
    "ops/native/core/memory.cpp": "a fork waits for it",
    "ops/native/core/pool.hpp": "in PerProcess",
    "ops/native/core/thread_pool.cpp": "in PerProcess",
    "ops/native/core/parallel.hpp": "of a call",
    "ops/native/graphs/csc_buckets.cpp": "of a call",
}


def test_every_lock_is_one_of_its_process_or_listed():
    made = re.compile(r"(?<![\w.])(?:threading\.)?(?:Lock|RLock|Condition|Semaphore|Barrier)\(")
    for folder in ("ops", "pipeline", "cuda"):
        for path in (ROOT / folder).rglob("*.py"):
            name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
            assert len(made.findall(text)) == PLAIN.get(name, 0), f"{name}: use ops.forks.ProcessLock, or list it here"
            assert not re.search(r"import .*\bcached_property", text) or "headrace.ops.forks import" in text, name
    mutexes = re.compile(r"std::(?:recursive_|shared_)?mutex [a-z_]+;|std::once_flag|std::call_once")
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "ops/native").rglob("*.[ch]pp")
        if mutexes.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(NATIVE)


def test_a_property_is_computed_once_for_each_object():
    class Square:
        def __init__(self, side):
            self.side, self.calls = side, 0

        @cached_property
        def area(self):
            """Of the square."""
            self.calls += 1
            return self.side**2

    one, other = Square(2), Square(3)
    assert (one.area, one.area, other.area, one.calls) == (4, 4, 9, 1)
    assert Square.area.__doc__ == "Of the square."
    assert isinstance(Square.area, cached_property)


@needs_fork
@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_lock_that_a_thread_holds_is_open_in_the_child(make):
    lock, holds, over = ProcessLock(make), threading.Event(), threading.Event()

    def hold():
        with lock.held():
            holds.set()
            over.wait(60)

    def check():
        with lock.held():
            assert in_child(lambda: lock.held().acquire(timeout=5) or os._exit(3)) == 0

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        holds.wait()
        assert in_child(check) == 0
        assert not lock.held().acquire(blocking=False)  # here it is held
    finally:
        over.set()
        thread.join()


@needs_fork
def test_a_property_that_a_thread_computes_is_computed_in_the_child():
    """Before Python 3.12 all objects of a class have one lock for it."""
    random = np.random.default_rng(0)
    large = hr.Graph.from_coo(*torch.from_numpy(random.integers(0, 100_000, (2, 5_000_000))), num_nodes=100_000)
    small = hr.Graph.from_coo([0, 0], [1, 1], num_nodes=2)
    begins = threading.Event()

    def compute():
        begins.set()
        assert large.has_parallel_edges in (True, False)

    thread = threading.Thread(target=compute)
    thread.start()
    begins.wait()

    def check():
        assert small.has_parallel_edges

    try:
        while thread.is_alive():
            assert in_child(check) == 0
    finally:
        thread.join()
