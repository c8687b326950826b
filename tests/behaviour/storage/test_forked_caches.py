"""Cached and tiered features in a forked process, whatever threads of the parent were doing with them."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import torch
from tier_sizes import tier_sizes

import headrace as hr

from forked import in_child

pytestmark = [
    pytest.mark.uninstrumented,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

X = torch.arange(30.0).reshape(10, 3)
IDS = torch.tensor([4, 2])
EXPECTED = X[IDS].numpy()


class Waits:
    """A source whose thread waits in the middle of a call, in the process that made it."""

    def __init__(self):
        self.rows = X.clone()
        self.num_rows, self.dtype, self.shape, self.row_bytes = 10, X.dtype, tuple(X.shape), 12
        self.process = os.getpid()
        self.inside, self.go_on = threading.Event(), threading.Event()

    def wait(self):
        if os.getpid() == self.process:
            self.inside.set()
            self.go_on.wait(60)

    def read(self, ids, *, num_threads=1, to=None):
        self.wait()
        return hr.Rows(self.rows[ids.long()], {})

    def update(self, ids, rows):
        self.wait()
        self.rows[ids.long()] = rows

    def content_digest(self):
        return "rows"


def in_child_while(source, work, check):
    """The exit status of a child that is forked while a thread is in the middle of `work`."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert source.inside.wait(60)
        return in_child(check)
    finally:
        source.go_on.set()
        thread.join()


def test_rows_that_a_thread_of_the_parent_is_reading_are_kept_in_the_child():
    source = Waits()
    cache = hr.CachedFeature(source, "lru", rows=5)

    def check():
        assert [cache.read(IDS).counts["hits"] for _ in range(2)] == [0, 2]
        assert np.array_equal(cache.read(IDS).rows.numpy(), EXPECTED)

    assert in_child_while(source, lambda: cache.read(IDS), check) == 0
    assert cache.read(IDS).counts["hits"] == 2


def test_an_update_in_the_parent_does_not_stop_one_in_the_child():
    source = Waits()
    cache = hr.CachedFeature(source, "lru", rows=5)
    rows = -X[IDS]

    def check():
        cache.update(IDS, rows)
        assert np.array_equal(cache.read(IDS).rows.numpy(), -EXPECTED)

    assert in_child_while(source, lambda: cache.update(IDS, rows), check) == 0


def test_tiers_that_the_parent_is_filling_are_filled_in_the_child():
    source = Waits()
    tiered = hr.TieredFeature(source, torch.arange(10), tier_sizes(host=5))

    def check():
        assert np.array_equal(tiered.read(IDS).rows.numpy(), EXPECTED)

    assert in_child_while(source, tiered.fill, check) == 0
    assert torch.equal(tiered.read(IDS).rows, X[IDS])


def test_a_read_that_itself_forks_fills_no_slot_that_another_read_of_the_child_has():
    class Forks(Waits):
        def read(self, ids, *, num_threads=1, to=None):
            rows = self.rows[ids.long()]
            if not self.inside.is_set():
                self.inside.set()
                child = os.fork()
                if child:
                    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                else:
                    cache.read(torch.tensor([7, 8]))  # into the slots that the read at hand has in the parent
            return hr.Rows(rows, {})

    statuses = []
    source, parent = Forks(), os.getpid()
    cache = hr.CachedFeature(source, "lru", rows=2)
    status = 1
    try:
        equal = np.array_equal(cache.read(IDS).rows.numpy(), EXPECTED)
        again = cache.read(torch.tensor([7, 8]))
        status = 0 if equal and np.array_equal(again.rows.numpy(), X[7:9].numpy()) else 1
    finally:
        if os.getpid() != parent:
            os._exit(status)
    assert status == 0
    assert statuses == [0]
