"""Memory, streams and places of a cache on what stands in for a GPU."""

from __future__ import annotations

import weakref

import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.ops.gpu import record, side_stream
from headrace.pipeline.storage import rows_on_gpu
from headrace.pipeline.storage.gpu_cached_feature import GpuCachedFeature

from cuda_host.stand_in import StandIn

NUM_ROWS = 90
CUDA = hr.Place("cuda")
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def gpu():
    with stand_in(StandIn()):
        yield


def table():
    return torch.arange(NUM_ROWS * 3, dtype=torch.float32).reshape(NUM_ROWS, 3)


def test_what_had_room_is_given_back_before_less_is_tried(monkeypatch):
    made, alive = torch.empty, []

    def empty(size, *arguments, **options):
        if isinstance(size, tuple):
            assert all(one() is None for one in alive)
            if size[0] > 7:
                rows = made(size, *arguments, **options)
                alive.append(weakref.ref(rows))
                return rows
        return made(size, *arguments, **options)

    def index(num_slots, *arguments, **options):
        if num_slots > 7:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return hr.ops.SetIndex(num_slots, *arguments, **options)

    monkeypatch.setattr(rows_on_gpu, "SetIndex", index)
    monkeypatch.setattr(rows_on_gpu.torch, "empty", empty)
    rows_on_gpu._allocate(NUM_ROWS, (3,), torch.float32, 31, CPU)
    assert len(alive) == 2


@pytest.mark.parametrize("rows", [1, 40])
def test_updates_wait_for_reads_that_are_on_their_way(rows):
    x = table()
    before = x.clone()
    cache = GpuCachedFeature(x, rows=rows)
    cache.prepare(CUDA)
    ids = torch.tensor([3, 5])
    with side_stream(CPU, behind_current=True):
        read = cache.read(ids, to=CUDA).rows
        event = record(CPU)
    cache.update(ids, torch.full((2, 3), -1.0))
    event.wait()
    assert torch.equal(read, before[ids])
    assert torch.equal(cache.read(ids, to=CUDA).rows, x[ids])


def test_counts_that_the_host_does_not_know_yet_come_with_a_later_read(monkeypatch):
    known = [False]

    def read_later(numbers):
        found = numbers.tolist()
        return lambda: found if known[0] else None

    monkeypatch.setattr("headrace.cuda.cache.read_later", read_later)
    cache = GpuCachedFeature(table(), rows=NUM_ROWS - 1)
    ids = torch.arange(10)
    for _ in range(3):
        counts = cache.read(ids, to=CUDA).counts
        assert (counts["hits"], counts["misses"]) == (0, 0)
    stats = cache.stats()
    assert (stats["hits"], stats["misses"]) == (20, 10)  # it waits
    known[0] = True
    found = [cache.read(ids, to=CUDA).counts for _ in range(2)]
    assert [sum(counts[name] for counts in found) for name in ("hits", "misses")] == [40, 10]


def test_a_cache_of_one_gpu_reads_for_no_other(monkeypatch):
    monkeypatch.setattr("headrace.pipeline.storage.gpu_cached_feature.device_of", lambda ids: torch.device("cuda", 1))
    cache = GpuCachedFeature(table(), rows=1, place="cuda:0")
    for to in (CUDA, hr.Place("cuda", 0)):
        with pytest.raises(hr.InputError, match="got to=cuda:1"):
            cache.read(torch.tensor([1]), to=to)
    asked = []
    monkeypatch.setattr("headrace.pipeline.storage.gpu_cached_feature.gpu_at", lambda place: asked.append(place) or CPU)
    cache.prepare(CUDA)
    assert asked == ["cuda:0"]
