"""One contract for every policy: a cache answers as plain indexing does, and counts exactly."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from caches import POLICIES

import headrace as hr

CPU = hr.Place("cpu")

NUM_ROWS = 40
CAPACITIES = (1, 3, NUM_ROWS, 2 * NUM_ROWS)
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)


class OnlyReads:
    """A source that can do no more than a source has to; it remembers what it was asked for, and fails on demand."""

    def __init__(self, rows):
        self.rows, self.asked, self.fails = rows, [], False
        self.num_rows, self.dtype, self.shape = len(rows), rows.dtype, tuple(rows.shape)
        self.row_bytes = rows[:1].nbytes

    def read(self, ids, *, num_threads=1, to=CPU):
        self.asked.append(ids.tolist())
        if self.fails:
            raise OSError("the disk is gone")
        return hr.Rows(self.rows[ids.long()], {"bytes_from_disk": len(ids) * self.row_bytes})

    def content_digest(self):
        return "rows"


def cached(policy, source, **options):
    if policy == "static" and "scores" not in options:
        options["scores"] = torch.arange(NUM_ROWS, dtype=torch.float64)
    return hr.CachedFeature(source, policy, **options)


def table(dtype=torch.float32, width=3):
    numbers = torch.arange(NUM_ROWS * width).reshape(NUM_ROWS, width)
    return (numbers % 2 == 0) if dtype is torch.bool else numbers.to(dtype)


def drawn(seed, count=30, size=12):
    """Reads: skewed, some of them empty, with repeats and both ends of the table."""
    random = np.random.default_rng(seed)
    reads = [(random.random(random.integers(0, size)) ** 2 * NUM_ROWS).astype(np.int64) for _ in range(count)]
    return [torch.from_numpy(ids) for ids in [*reads, np.array([0, NUM_ROWS - 1, 0, NUM_ROWS - 1])]]


@pytest.mark.combinations(24)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("rows", CAPACITIES)
@pytest.mark.parametrize("places_itself", [False, True])
@pytest.mark.parametrize("id_dtype", [torch.int32, torch.int64])
def test_reads_are_plain_indexing_and_counts_are_exact(policy, rows, places_itself, id_dtype):
    for dtype in DTYPES:
        x = table(dtype)
        plain = OnlyReads(x)
        cache = cached(policy, x if places_itself else plain, rows=rows)
        assert cache.capacity == min(rows, NUM_ROWS)
        hits = misses = 0
        reads = drawn(rows)
        if policy == "look-ahead":
            for ids in reads[::2]:
                cache.expect(ids)
        for ids in reads:
            plain.asked.clear()
            out, counts = cache.read(ids.to(id_dtype), num_threads=1 + len(ids) % 3)
            assert out.dtype == dtype
            assert torch.equal(out, x[ids])
            assert counts["hits"] + counts["misses"] == len(ids)
            assert counts["bytes_from_cache"] == counts["hits"] * x[:1].nbytes
            source = counts.get("bytes_from_cpu" if places_itself else "bytes_from_disk", 0)
            assert source == counts["misses"] * x[:1].nbytes
            if not places_itself:  # one call, each row once
                assert len(plain.asked) == (counts["misses"] > 0)
                assert all(len(set(asked)) == len(asked) for asked in plain.asked)
            hits, misses = hits + counts["hits"], misses + counts["misses"]
        stats = cache.stats()
        assert (stats["hits"], stats["misses"]) == (hits, misses)
        assert stats["bytes_from_cache"] == hits * x[:1].nbytes
        if rows >= NUM_ROWS:
            assert misses == len(set(torch.cat(reads).tolist()))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("shape", [(NUM_ROWS,), (NUM_ROWS, 0), (NUM_ROWS, 2, 2), (0, 3)])
def test_rows_of_any_shape(policy, shape):
    x = torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(shape)
    scores = {"scores": torch.zeros(shape[0], dtype=torch.float64)} if policy == "static" else {}
    cache = hr.CachedFeature(x, policy, rows=4, **scores)
    for ids in drawn(1) if shape[0] else [torch.empty(0, dtype=torch.int64)]:
        assert torch.equal(cache.read(ids).rows, x[ids])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("rows", [1, 3])
def test_writes_rows_where_they_are_wanted(policy, rows):
    x = table()
    cache = cached(policy, x, rows=rows)
    assert isinstance(cache, hr.ext.PlacingSource)
    for seed, ids in enumerate(drawn(2)):
        out = torch.full((len(ids) + 5, 3), -1.0)
        places = torch.randperm(len(ids) + 5, generator=torch.Generator().manual_seed(seed))[: len(ids)]
        expected = out.clone()
        expected[places] = x[ids]
        counts = cache.read_into(ids, out, places=places)
        assert counts["hits"] + counts["misses"] == len(ids)
        assert torch.equal(out, expected)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("rows", CAPACITIES)
def test_threads_read_the_same(policy, rows):
    """Up to eight threads at once; totals are exact whatever the order."""
    for num_threads in (2, 8):
        x = table()
        cache = cached(policy, OnlyReads(x), rows=rows)
        reads = [ids for seed in range(6) for ids in drawn(seed)]

        def read(ids, cache=cache, x=x):
            out, counts = cache.read(ids)
            assert torch.equal(out, x[ids])
            return counts["hits"], counts["misses"]

        if policy == "look-ahead":
            for ids in reads:
                cache.expect(ids)
        with ThreadPoolExecutor(num_threads) as pool:
            counted = list(pool.map(read, reads))
        stats = cache.stats()
        assert stats["hits"] == sum(hits for hits, _ in counted)
        assert stats["misses"] == sum(misses for _, misses in counted)
        assert stats["hits"] + stats["misses"] == sum(map(len, reads))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("rows", [1, 5, NUM_ROWS])
def test_a_source_that_fails_midway_leaves_the_cache_right(policy, rows):
    source = OnlyReads(table())
    cache = cached(policy, source, rows=rows)
    for number, ids in enumerate(drawn(3)):
        before = cache.stats()
        source.fails = number % 2 == 0
        try:
            assert torch.equal(cache.read(ids).rows, source.rows[ids])
        except OSError:
            after = cache.stats()
            assert (after["hits"], after["misses"]) == (before["hits"], before["misses"])
    source.fails = False
    # All slots are there again: what fits is found the second time.
    ids = torch.arange(NUM_ROWS - cache.capacity, NUM_ROWS)
    cache.read(ids)
    if policy != "look-ahead":
        assert cache.read(ids).counts["misses"] == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_a_source_of_rows_of_another_shape_is_refused_and_not_kept(policy):
    class Short(OnlyReads):
        def read(self, ids, *, num_threads=1, to=CPU):
            return hr.Rows(self.rows[ids[1:]])

    cache = cached(policy, Short(table()), rows=NUM_ROWS)
    for _ in range(2):
        with pytest.raises(hr.InputError):
            cache.read(torch.tensor([3, 1]))


def test_a_source_that_returns_no_counts_is_refused_by_name():
    class Bare(OnlyReads):
        def read(self, ids, *, num_threads=1, to=CPU):
            return self.rows[ids]

    with pytest.raises(hr.InputError, match="Bare"):
        hr.CachedFeature(Bare(table()), rows=2).read(torch.tensor([1]))


def test_updates_reach_the_source_and_copies():
    for policy in POLICIES:
        x = table()
        cache = cached(policy, x, rows=NUM_ROWS)
        everything = torch.arange(NUM_ROWS)
        cache.read(everything)
        digest = cache.content_digest()
        expected = x.clone()
        for number, ids in enumerate((torch.tensor([3, 0]), torch.tensor([NUM_ROWS - 1], dtype=torch.int32))):
            rows = torch.full((len(ids), 3), -1.0 - number)
            cache.update(ids, rows)
            expected[ids.long()] = rows
            assert torch.equal(cache.read(everything).rows, expected)
        assert torch.equal(x, expected)
        assert cache.content_digest() != digest
        assert cache.stats()["invalidations"] == 3
        assert cache.read(everything).counts["misses"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_no_read_that_begins_after_an_update_finds_what_was_before(policy):
    """Every row holds its version alone; one thread updates, others read."""
    x = torch.zeros(NUM_ROWS, 1, dtype=torch.int64)
    cache = cached(policy, x, rows=8)
    versions = np.zeros(NUM_ROWS, dtype=np.int64)  # those whose update has returned
    stale = []
    ended = threading.Event()

    def read(seed):
        random = np.random.default_rng(seed)
        while not ended.is_set():
            ids = (random.random(10) ** 2 * NUM_ROWS).astype(np.int64)
            least = versions[ids]
            rows = cache.read(torch.from_numpy(ids)).rows[:, 0].numpy()
            if (rows < least).any():
                stale.append((ids, rows, least))

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for reader in readers:
        reader.start()
    random = np.random.default_rng(9)
    for version in range(1, 400):
        ids = np.unique((random.random(4) ** 2 * NUM_ROWS).astype(np.int64))
        cache.update(torch.from_numpy(ids), torch.full((len(ids), 1), version))
        versions[ids] = version
    ended.set()
    for reader in readers:
        reader.join()
    assert not stale
    assert torch.equal(cache.read(torch.arange(NUM_ROWS)).rows, x)


def test_an_update_during_a_read_is_not_undone_by_what_the_read_keeps():
    """The read has its row from the source already when the update comes."""
    x = table()

    class Meanwhile(OnlyReads):
        def read(self, ids, *, num_threads=1, to=CPU):
            rows = super().read(ids)
            if len(self.asked) == 1:
                cache.update(torch.tensor([2]), torch.full((1, 3), -1.0))
            return rows

        def update(self, ids, rows):
            self.rows[ids] = rows

    cache = hr.CachedFeature(Meanwhile(x), "lru", rows=5)
    assert cache.read(torch.tensor([2, 4])).rows[0].tolist() == [6.0, 7.0, 8.0]
    again = cache.read(torch.tensor([2, 4]))
    assert again.rows[0].tolist() == [-1.0, -1.0, -1.0]
    assert again.counts["misses"] == 1


def test_what_is_read_while_the_source_is_being_updated_does_not_stay():
    class Slow(OnlyReads):
        def update(self, ids, rows):
            cache.read(ids)  # as another thread may, before the row has changed
            self.rows[ids] = rows

    cache = hr.CachedFeature(Slow(table()), "lru", rows=5)
    cache.update(torch.tensor([2]), torch.full((1, 3), -1.0))
    assert cache.read(torch.tensor([2])).rows.tolist() == [[-1.0, -1.0, -1.0]]


def test_refuses_updates_that_do_not_fit():
    x = table()
    cache = hr.CachedFeature(x, rows=3)
    rows = torch.zeros(2, 3)
    for ids, values in (
        (torch.tensor([1, 1]), rows),
        (torch.tensor([1, NUM_ROWS]), rows),
        (torch.tensor([1, -1]), rows),
        (torch.tensor([1]), rows),
        (torch.tensor([1, 2]), rows.double()),
        (torch.tensor([1, 2]), rows.tolist()),
    ):
        with pytest.raises(hr.InputError):
            cache.update(ids, values)
    assert torch.equal(x, table())
    frozen = np.zeros((3, 1))
    frozen.flags.writeable = False
    for source in (frozen, torch.zeros(1, 1).expand(3, 1)):
        with pytest.raises(hr.InputError, match="read-only"):
            hr.CachedFeature(source, rows=1).update(torch.tensor([1]), torch.zeros(1, 1, dtype=torch.float64))
    with pytest.raises(hr.InputError, match="OnlyReads, which has none"):
        hr.CachedFeature(OnlyReads(x), rows=1).update(torch.tensor([1]), rows[:1])


def test_static_holds_the_rows_of_the_highest_scores_or_of_ids():
    x = table()
    scores = torch.zeros(NUM_ROWS, dtype=torch.float64)
    scores[[7, 30, 5]] = torch.tensor([3.0, 2.0, 2.0], dtype=torch.float64)
    for cache in (
        hr.CachedFeature(x, "static", rows=2, scores=scores),
        hr.CachedFeature(x, "static", rows=2, ids=[7, 5, 30]),
        hr.CachedFeature(x, "static", bytes=2 * (12 + 64), ids=torch.tensor([5, 7], dtype=torch.int32)),
        hr.CachedFeature(x, "static", ids=[5, 7]),
    ):
        cache.read(torch.arange(NUM_ROWS))
        assert [cache.read(torch.tensor([row])).counts["hits"] for row in (5, 7, 30, 0)] == [1, 1, 0, 0]


def test_look_ahead_keeps_what_scores_say_where_it_knows_nothing():
    scores = torch.arange(NUM_ROWS, dtype=torch.float64)
    cache = hr.CachedFeature(table(), "look-ahead", rows=2, scores=scores)
    cache.read(torch.tensor([3, 4]))
    for row in (39, 38, 5):
        cache.read(torch.tensor([row]))
    assert cache.read(torch.tensor([39, 38])).counts["misses"] == 0
    cache.expect(torch.tensor([5]))
    cache.expect(torch.tensor([5]))
    cache.read(torch.tensor([5]))
    assert cache.stats()["expected"] == 1
    assert cache.read(torch.tensor([5])).counts["hits"] == 1
    cache.expect(torch.tensor([5]))
    cache.expect_nothing()
    assert cache.stats()["expected"] == 0


def test_refuses_reads_that_do_not_fit():
    x = table()
    cache = hr.CachedFeature(x, "lru", rows=3)
    with pytest.raises(hr.InputError, match="look-ahead"):
        cache.expect(torch.tensor([1]))
    with pytest.raises(hr.InputError, match="no row"):
        cache.read(torch.tensor([1, NUM_ROWS]))
    with pytest.raises(hr.InputError, match="cpu"):
        cache.read(torch.tensor([1]), to=hr.Place("cuda", 0))
    with pytest.raises(hr.InputError):
        cache.read_into(torch.tensor([1, 2]), torch.zeros(2, 3, dtype=torch.float64))
    with pytest.raises(hr.InputError):
        cache.read_into(torch.tensor([1, 2]), torch.zeros(2, 3), places=torch.tensor([0, 2]))
    assert cache.read(torch.tensor([1])).counts["misses"] == 1


def test_is_its_source_to_plans_and_a_copy_begins_empty():
    x = table()
    source = hr.FeatureStore(node={"x": x}).node["x"]
    cache = hr.CachedFeature(source, "lru", rows=3)
    assert cache.content_digest() == source.content_digest()
    assert (cache.num_rows, cache.row_bytes, cache.dtype, cache.shape) == (NUM_ROWS, 12, torch.float32, (NUM_ROWS, 3))
    assert (cache.source, cache.policy) == (source, "lru")
    cache.read(torch.tensor([1, 2]))
    for other in (copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):  # noqa: S301 - our own
        assert other == cache
        assert hash(other) == hash(cache)
        assert (other.policy, other.capacity) == ("lru", 3)
        assert other.read(torch.tensor([1, 2])).counts["misses"] == 2
    assert cache == hr.CachedFeature(x, "sieve", rows=1)
    assert cache != hr.CachedFeature(x + 1, "lru", rows=3)
    assert cache != source
