"""A feature that fits whole on what stands in for a GPU: it is copied once, and read plainly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.ops.cache.set_index import SLOT_BYTES

from cuda_host.stand_in import StandIn

NUM_ROWS, ROW_BYTES = 90, 12
CUDA = hr.Place("cuda")


@pytest.fixture(autouse=True)
def gpu():
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    with stand_in(StandIn()):
        yield
    torch.use_deterministic_algorithms(False)


class OnlyReads:
    """A source that a GPU cannot read."""

    def __init__(self, rows):
        self.rows = rows
        self.num_rows, self.dtype, self.shape = len(rows), rows.dtype, tuple(rows.shape)
        self.row_bytes = rows[:1].nbytes

    def read(self, ids, *, num_threads=1, to=None):
        return hr.Rows(self.rows[ids.long()], {"bytes_from_disk": len(ids) * self.row_bytes})

    def content_digest(self):
        return "rows"


def table():
    return torch.arange(3.0 * NUM_ROWS).reshape(NUM_ROWS, 3)


def drawn(seed, count=12, size=30):
    random = np.random.default_rng(seed)
    return [torch.from_numpy(random.integers(0, NUM_ROWS, random.integers(0, size))) for _ in range(count)]


@pytest.mark.parametrize("size", [{"rows": NUM_ROWS}, {"rows": 2 * NUM_ROWS}, {"bytes": NUM_ROWS * ROW_BYTES}])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_feature_that_fits_is_copied_once_and_gathered_plainly(size, in_place, monkeypatch):
    monkeypatch.setattr("headrace.pipeline.storage.whole_on_gpu.BYTES_AT_ONCE", 100)
    monkeypatch.setattr("headrace.pipeline.storage.gpu_cached_feature.RowsOnGpu", None)  # nothing is looked up
    x = table()
    cache = hr.CachedFeature(x if in_place else OnlyReads(x), place="cuda", **size)
    assert (cache.capacity, cache.policy, cache.foresight) == (NUM_ROWS, "all rows", 0)
    assert "all rows" in repr(cache)
    total = 0
    for number, ids in enumerate(drawn(7)):
        rows, counts = cache.read(ids, to=CUDA)
        assert torch.equal(rows, x[ids])
        copied = 0 if number else NUM_ROWS
        assert (counts["hits"], counts["misses"]) == (len(ids), copied)
        assert counts.get("bytes_from_pinned" if in_place else "bytes_from_disk", 0) == copied * ROW_BYTES
        total += len(ids)
    assert (cache.stats()["hits"], cache.stats()["misses"]) == (total, NUM_ROWS)
    x[3] = -5.0  # by the training loop
    ids = torch.tensor([3, 4])
    if in_place:
        rows, counts = cache.read(ids, to=CUDA)
        assert torch.equal(rows, x[ids])
        assert counts["misses"] == NUM_ROWS
    cache.give_back()
    assert torch.equal(cache.read(ids, to=CUDA).rows, x[ids])


def test_one_byte_less_than_all_rows_needs_look_ups():
    x, num_bytes = table(), NUM_ROWS * ROW_BYTES - 1
    assert hr.CachedFeature(x, bytes=num_bytes, place="cuda").capacity == (NUM_ROWS * 12 - 1) // (12 + SLOT_BYTES)


def test_a_feature_that_does_not_fit_after_all_has_a_cache(monkeypatch):
    def no_room(*arguments):
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr("headrace.pipeline.storage.gpu_cached_feature.WholeOnGpu", no_room)
    x = table()
    cache = hr.CachedFeature(x, rows=NUM_ROWS, place="cuda")
    for ids in drawn(3, count=2):
        assert torch.equal(cache.read(ids, to=CUDA).rows, x[ids])
    assert cache.stats()["misses"] < NUM_ROWS
