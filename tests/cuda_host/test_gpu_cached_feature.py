"""A cache on what stands in for a GPU: it answers as plain indexing does, and counts exactly."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.ops.cache.set_index import SLOT_BYTES
from headrace.ops.gpu import record, side_stream
from headrace.ops.reference import SetCache
from headrace.pipeline.storage import rows_on_gpu
from headrace.pipeline.storage.gpu_cached_feature import GpuCachedFeature
from headrace.pipeline.storage.rows_on_gpu import MOST_OVERDUE, ExpectedReads

from cuda_host.stand_in import StandIn
from forked import in_child

NUM_ROWS = 90
CUDA = hr.Place("cuda")
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def gpu():
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    backend = StandIn()
    with stand_in(backend):
        yield backend
    torch.use_deterministic_algorithms(False)


class OnlyReads:
    """A source that a GPU cannot read; it remembers what it was asked for, and fails on demand."""

    def __init__(self, rows):
        self.rows, self.asked, self.fails = rows, [], False
        self.num_rows, self.dtype, self.shape = len(rows), rows.dtype, tuple(rows.shape)
        self.row_bytes = rows[:1].nbytes

    def read(self, ids, *, num_threads=1, to=None):
        self.asked.append(ids.tolist())
        if self.fails:
            raise OSError("the disk is gone")
        return hr.Rows(self.rows[ids.long()], {"bytes_from_disk": len(ids) * self.row_bytes})

    def content_digest(self):
        return "rows"


def table(dtype=torch.float32, width=3):
    numbers = torch.arange(NUM_ROWS * width).reshape(NUM_ROWS, width)
    return (numbers % 2 == 0) if dtype is torch.bool else numbers.to(dtype)


def drawn(seed, count=12, size=30):
    """Reads: skewed, some of them empty, with repeats and both ends of the table."""
    random = np.random.default_rng(seed)
    reads = [(random.random(random.integers(0, size)) ** 2 * NUM_ROWS).astype(np.int64) for _ in range(count)]
    return [torch.from_numpy(ids) for ids in [*reads, np.array([0, NUM_ROWS - 1, 0, NUM_ROWS - 1])]]


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [1, 33, NUM_ROWS - 1])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_reads_are_plain_indexing_and_counts_are_those_of_the_oracle(capacity, in_place, dtype):
    x = table(dtype, width=1 + 128 * (capacity == 33))
    plain = OnlyReads(x)
    cache = GpuCachedFeature(x if in_place else plain, rows=capacity)
    oracle = SetCache(capacity, NUM_ROWS)
    cache.prepare(CUDA)
    reads = drawn(capacity)
    for ids in reads[:3]:
        cache.expect(ids)
    for number, ids in enumerate(reads):
        coming = [one.tolist() for one in reads[number + 1 : number + 4]]
        if number + 3 < len(reads):
            cache.expect(reads[number + 3])
        slots, _ = oracle.look_up(ids.tolist(), coming, keep_found=False)
        rows, counts = cache.read(ids.to(torch.int32) if number % 2 else ids, to=CUDA)
        assert rows.dtype == dtype
        assert torch.equal(rows, x[ids])
        hits = sum(slot >= 0 for slot in slots)
        assert (counts["hits"], counts["misses"]) == (hits, len(ids) - hits)
        assert counts["bytes_from_cache"] == hits * x[:1].nbytes
        assert counts["bytes_from_pinned" if in_place else "bytes_from_disk"] == (len(ids) - hits) * x[:1].nbytes
    stats = cache.stats()
    assert {name: stats[name] for name in oracle.counts()} == oracle.counts()
    assert stats["expected"] == 0


@pytest.mark.parametrize("shape", [(NUM_ROWS,), (NUM_ROWS, 0), (NUM_ROWS, 2, 2), (0, 3)])
@pytest.mark.parametrize("in_place", [False, True])
def test_rows_of_any_shape(shape, in_place):
    x = torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(shape)
    cache = GpuCachedFeature(x if in_place else OnlyReads(x), rows=5)
    for ids in drawn(1) if shape[0] else [torch.empty(0, dtype=torch.int64)]:
        assert torch.equal(cache.read(ids, to=CUDA).rows, x[ids])


def test_columns_of_a_larger_array_are_read_by_the_processor():
    x = table(width=8)
    cache = GpuCachedFeature(x[:, 2:5], rows=20)
    for ids in drawn(2):
        assert torch.equal(cache.read(ids, to=CUDA).rows, x[:, 2:5][ids])


def test_reads_to_cpu_memory_go_past():
    cache = GpuCachedFeature(table(), rows=5)
    for _ in range(2):
        rows, counts = cache.read(torch.tensor([1, 4]))
        assert torch.equal(rows, table()[[1, 4]])
        assert counts == {"bytes_from_cpu": 24}
    out = torch.zeros(3, 3)
    assert cache.read_into(torch.tensor([1, 4]), out, places=torch.tensor([2, 0])) == {"bytes_from_cpu": 24}
    assert torch.equal(out[[2, 0]], table()[[1, 4]])
    assert GpuCachedFeature(OnlyReads(table()), rows=1).read_into(torch.tensor([1, 4]), out) == {"bytes_from_disk": 24}
    assert torch.equal(out[:2], table()[[1, 4]])


def test_what_is_expected_is_kept():
    cache = GpuCachedFeature(table(), rows=1)
    one, two = torch.tensor([1]), torch.tensor([2, 3])
    cache.expect(one)  # before anything is prepared
    cache.prepare(CUDA)
    assert cache.stats()["expected"] == 0
    for hits in (0, 1):
        cache.expect(two)
        cache.expect(one)
        assert cache.read(one, to=CUDA).counts["hits"] == hits  # takes its own off, behind the other one
        cache.expect(one)
        cache.read(two, to=CUDA)
        assert cache.stats()["expected"] == 1
        assert cache.read(one, to=CUDA).counts["hits"] == 1
        assert cache.stats()["expected"] == 0
    cache.expect(one)
    cache.expect_nothing()
    assert cache.stats()["expected"] == 0
    cache.read(two, to=CUDA)
    assert cache.read(one, to=CUDA).counts["hits"] == 0


def test_expected_reads_that_never_come_are_given_up():
    reads = ExpectedReads()
    for size in range(MOST_OVERDUE + 3):
        reads.add(torch.arange(size), CPU)
    reads.take(MOST_OVERDUE + 9)
    assert len(reads) == MOST_OVERDUE + 3
    reads.take(MOST_OVERDUE + 2)
    assert len(reads.on(CPU)[0]) == 2
    assert len(reads) == MOST_OVERDUE


def test_a_source_that_fails_midway_leaves_the_cache_right():
    source = OnlyReads(table())
    cache = GpuCachedFeature(source, rows=40)
    for number, ids in enumerate(drawn(3)):
        source.fails = number % 2 == 0
        try:
            assert torch.equal(cache.read(ids, to=CUDA).rows, source.rows[ids])
        except OSError:
            assert source.fails
    source.fails = False
    for ids in drawn(3):
        assert torch.equal(cache.read(ids, to=CUDA).rows, source.rows[ids])


def test_threads_and_streams_read_the_same():
    x = table()
    cache = GpuCachedFeature(x, rows=40)
    cache.prepare(CUDA)
    reads = [ids for seed in range(4) for ids in drawn(seed)]
    barrier = threading.Barrier(4)

    def read(part):
        barrier.wait()
        with side_stream(CPU, behind_current=True):
            found = [(ids, cache.read(ids, to=CUDA).rows) for ids in reads[part::4]]
            event = record(CPU)
        event.wait()
        return found

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(read, range(4)):
            assert all(torch.equal(rows, x[ids]) for ids, rows in found)
    stats = cache.stats()
    assert stats["hits"] + stats["misses"] == sum(map(len, reads))


def test_reads_on_two_streams_wait_for_each_other(gpu):
    """The second one finds what the first one fills in, but only behind it."""
    cache = GpuCachedFeature(table(), rows=40)
    cache.prepare(CUDA)
    ids = torch.tensor([3, 5])
    with side_stream(CPU, behind_current=True):
        early = cache.read(ids, to=CUDA).rows
    assert early.isnan().any()
    late = []

    def read():
        with side_stream(CPU, behind_current=True):
            late.append(cache.read(ids, to=CUDA))
            event = record(CPU)
        event.wait()

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert cache.stats()["hits"] == 2
    assert torch.equal(late[0].rows, table()[ids])


@pytest.mark.parametrize("room", [0, 1, 7])
def test_where_the_gpu_has_less_memory_the_cache_is_smaller(room, monkeypatch):
    made = rows_on_gpu.SetIndex

    def index(num_slots, *arguments, **options):
        if num_slots > room:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate")
        return made(num_slots, *arguments, **options)

    monkeypatch.setattr(rows_on_gpu, "SetIndex", index)
    cache = GpuCachedFeature(table(), rows=31)
    with pytest.warns(UserWarning, match=rf"has room for {room} of 31 rows"):
        cache.prepare(CUDA)
    for ids in drawn(4):
        assert torch.equal(cache.read(ids, to=CUDA).rows, table()[ids])
    assert (cache.stats()["hits"] > 0) == (room > 0)


def test_where_memory_cannot_be_pinned_missing_rows_are_copied(monkeypatch):
    def refuse(*_):
        raise hr.HeadraceError("no more memory can be locked")

    monkeypatch.setattr("headrace.pipeline.storage.array_source.ArraySource.prepare", refuse)
    cache = GpuCachedFeature(table(), rows=5)
    with pytest.warns(UserWarning, match="read by the CPU and copied, as no more memory can be locked"):
        cache.prepare(CUDA)
    _, counts = cache.read(torch.tensor([1, 4]), to=CUDA)
    assert counts == {"bytes_from_cpu": 24, "hits": 0, "misses": 2, "bytes_from_cache": 0}


def test_updates_reach_the_source_and_copies():
    x = table()
    cache = GpuCachedFeature(x, rows=NUM_ROWS)
    every = torch.arange(NUM_ROWS)
    cache.read(every, to=CUDA)
    cache.update(torch.tensor([3, 0]), torch.full((2, 3), -1.0))
    assert x[3, 0] == -1
    assert torch.equal(cache.read(every, to=CUDA).rows, x)
    with pytest.raises(hr.InputError, match="OnlyReads, which has none"):
        GpuCachedFeature(OnlyReads(x), rows=1).update(every, x)


def test_is_its_source_to_plans_and_a_copy_begins_empty():
    x = table()
    source = hr.FeatureStore(node={"x": x}).node["x"]
    cache = GpuCachedFeature(source, rows=3, place="cuda:1")
    assert cache.content_digest() == source.content_digest()
    assert (cache.num_rows, cache.row_bytes, cache.dtype, cache.shape) == (NUM_ROWS, 12, torch.float32, (NUM_ROWS, 3))
    assert (cache.source, cache.place, cache.cache_place) == (source, hr.Place("cpu"), hr.Place("cuda", 1))
    there = hr.Place("cuda", 1)
    cache.read(torch.tensor([1, 2]), to=there)
    for other in (copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):  # noqa: S301 - our own
        assert other == cache
        assert hash(other) == hash(cache)
        assert (other.cache_place, other.capacity) == (there, 3)
        assert other.read(torch.tensor([1, 2]), to=there).counts["misses"] == 2
    assert cache == GpuCachedFeature(x, rows=1)
    assert cache != GpuCachedFeature(x + 1, rows=3)
    assert cache != source
    assert isinstance(cache, hr.FeatureSource)
    assert isinstance(cache, hr.ext.ExpectingSource)
    assert isinstance(cache, hr.ext.PlacingSource)
    assert repr(cache) == "CachedFeature(float32[90, 3], rows=3, place='cuda:1')"


@pytest.mark.uninstrumented
def test_a_forked_process_begins_empty():
    cache = GpuCachedFeature(table(), rows=40)
    ids = torch.arange(30)
    cache.read(ids, to=CUDA)

    def child():
        assert cache.stats()["misses"] == 0
        assert cache.read(ids, to=CUDA).counts["misses"] == 30
        assert torch.equal(cache.read(ids, to=CUDA).rows, table()[ids])

    assert in_child(child) == 0


def test_the_size_and_the_place():
    x = table()
    assert GpuCachedFeature(x, bytes=3 * (12 + SLOT_BYTES) + 35).capacity == 3
    assert GpuCachedFeature(x, rows=1000).capacity == NUM_ROWS
    for rows, foresight in ((3, 15), (NUM_ROWS, 0)):
        assert GpuCachedFeature(x, rows=rows).foresight == foresight
    for place, reads in (("cuda", (True, True)), ("cuda:1", (True, False))):
        cache = GpuCachedFeature(x, rows=1, place=place)
        assert (cache.reads_to(hr.Place("cuda", 1)), cache.reads_to(hr.Place("cuda", 0))) == reads
        assert cache.reads_to(CUDA)
        assert cache.foresees(CUDA)
        assert cache.reads_to(hr.Place("cpu"))
        assert not cache.foresees(hr.Place("cpu"))
        assert not cache.reads_to(hr.Place("meta"))
    with pytest.raises(hr.InputError, match="got to=cuda:0"):
        cache.read(torch.tensor([1]), to=hr.Place("cuda", 0))


def test_without_a_gpu(monkeypatch):
    from headrace.cuda import backend

    monkeypatch.setattr(backend, "_stand_in", None)
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    cache = GpuCachedFeature(table(), rows=3)
    with pytest.raises(hr.HeadraceError, match="cuda:0, which cannot be used here"):
        cache.prepare(hr.Place("cuda", 0))
    with pytest.raises(hr.InputError, match="got to=cuda"):
        cache.read(torch.tensor([1]), to=CUDA)
    cache.expect(torch.tensor([1]))
    assert cache.stats()["expected"] == 0
    assert torch.equal(cache.read(torch.tensor([1])).rows, table()[[1]])


def test_refuses_what_does_not_fit():
    for options, message in (
        ({}, "rows= or bytes="),
        ({"rows": 1, "bytes": 1}, "rows= or bytes="),
        ({"rows": 0}, "at least 1"),
        ({"rows": 1, "place": "cpu"}, "expected place to be a GPU, such as 'cuda:0', or 'cpu', got cpu"),
        ({"rows": 1, "place": "disk"}, "expected place to be a GPU, such as 'cuda:0', or 'cpu', got disk"),
        (
            {"rows": 1, "policy": "lru"},
            "expected no policy for a cache on cuda, which has a policy of its own",
        ),
        ({"ids": [1]}, "expected no ids for a cache on cuda"),
        ({"rows": 1, "scores": [1.0]}, "expected no scores for a cache on cuda"),
    ):
        with pytest.raises(hr.InputError, match=message):
            GpuCachedFeature(table(), **options)
        if options.get("place") != "cpu":
            with pytest.raises(hr.InputError, match=message):
                hr.CachedFeature(table(), **{"place": "cuda", **options})


@pytest.mark.parametrize("place", ["cuda", "cuda:1", hr.Place("cuda", 1)])
def test_a_cache_says_where_it_is(place):
    rows = table()
    cache = hr.CachedFeature(rows, rows=5, place=place)
    assert isinstance(cache, GpuCachedFeature)
    assert cache == GpuCachedFeature(rows, rows=5, place=place)
    assert cache.cache_place == GpuCachedFeature(rows, rows=5, place=place).cache_place
    assert pickle.loads(pickle.dumps(cache)).cache_place == cache.cache_place  # noqa: S301 - our own
    assert (cache.policy, cache.foresight) == ("look-ahead", 25)
    here = [hr.CachedFeature(rows, rows=5), hr.CachedFeature(rows, "sieve", rows=5, place="cpu")]
    assert [(one.cache_place, one.policy, type(one)) for one in here] == [
        (hr.Place("cpu"), "sieve", hr.CachedFeature)
    ] * 2
    assert here[0] == here[1] != cache


def test_writes_that_nobody_counts_are_seen_when_an_iteration_begins():
    rows = table()
    cached = GpuCachedFeature(rows, rows=40)
    ids = torch.arange(30)
    for number in range(3):
        cached.check_copies()
        assert torch.equal(cached.read(ids, to=CUDA).rows, rows[ids])
        rows.numpy()[:] += number + 1
    cached.read(ids, to=CUDA)
    before = cached.stats()["hits"]
    rows.numpy()[:] -= number + 1
    cached.check_copies()
    cached.read(ids, to=CUDA)
    assert cached.stats()["hits"] == before + len(ids)


def test_writes_past_update_are_seen():
    rows = table()
    cached = GpuCachedFeature(rows, rows=40)
    ids = torch.arange(30)
    for number in range(3):
        assert torch.equal(cached.read(ids, to=CUDA).rows, rows[ids])
        rows += number + 1
