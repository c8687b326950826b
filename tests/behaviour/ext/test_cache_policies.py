"""Cache policies of users: a cache returns the rows of its source, and keeps what the policy keeps."""

from __future__ import annotations

import copy
import os
import pickle
import threading

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

import headrace as hr
from headrace import ext

NUM_ROWS = 12


class Recency(ext.CachePolicy):
    """Give up the row whose last use is longest ago."""

    def __init__(self):
        self.clock, self.last = 0, {}

    def used(self, ids):
        self.clock += 1
        self.last.update(dict.fromkeys(ids.tolist(), self.clock))

    def evict(self, kept, missed, count):
        assert len(missed) == count
        return torch.tensor(sorted(kept.tolist(), key=lambda row: (self.last[row], row))[:count], dtype=torch.int64)


class Never(ext.CachePolicy):
    """Keep the first rows for ever."""

    def evict(self, kept, missed, count):
        return kept[:0]


def rows_of(num_rows=NUM_ROWS):
    return torch.arange(num_rows * 2.0).reshape(num_rows, 2)


def kept_by_recency(reads, capacity):
    """Replay reads on a list: (hits, misses, evictions, bypasses)."""
    kept, last, counts = [], {}, [0, 0, 0, 0]
    for clock, ids in enumerate(reads):
        missed = [row for row in dict.fromkeys(ids) if row not in kept]
        last.update(dict.fromkeys(ids, clock))
        counts[0] += len(ids) - len(missed)
        counts[1] += len(missed)
        short = len(missed) - (capacity - len(kept))
        givers = sorted((row for row in kept if row not in ids), key=lambda row: (last[row], row))[: max(short, 0)]
        counts[2] += len(givers)
        kept = [row for row in kept if row not in givers]
        fits = missed[: capacity - len(kept)]
        counts[3] += len(missed) - len(fits)
        kept += fits
    return dict(zip(("hits", "misses", "evictions", "bypasses"), counts, strict=True))


@given(
    reads=st.lists(st.lists(st.integers(0, NUM_ROWS - 1), max_size=6), max_size=12),
    capacity=st.integers(1, NUM_ROWS),
    dtype=st.sampled_from([torch.int32, torch.int64]),
)
def test_a_cache_keeps_what_its_policy_keeps(reads, capacity, dtype):
    x = rows_of()
    cached = hr.CachedFeature(x, Recency(), rows=capacity)
    for ids in reads:
        wanted = torch.tensor(ids, dtype=dtype)
        assert torch.equal(cached.read(wanted).rows, x[wanted.long()])
    expected = kept_by_recency(reads, capacity)
    assert {name: cached.stats()[name] for name in expected} == expected


def test_a_policy_may_let_rows_pass():
    cached = hr.CachedFeature(rows_of(), Never(), rows=2)
    for ids in ([4, 5], [6, 7], [4, 6]):
        assert torch.equal(cached.read(torch.tensor(ids)).rows, rows_of()[ids])
    assert cached.stats()["evictions"] == 0
    assert (cached.stats()["hits"], cached.stats()["bypasses"]) == (1, 3)


def test_a_policy_serves_batches_of_a_loader():
    x = torch.randn(50, 3)
    store = hr.FeatureStore(node={"x": hr.CachedFeature(x, Recency(), rows=10)})
    loader = hr.ItemSampler(50, batch_size=8, shuffle=True, seed=3).fetch_feature(store, node=["x"]).loader()
    for _ in range(2):
        for batch in loader:
            assert torch.equal(batch.x, x[batch.n_id])
    assert loader.stats()["fetch_feature"]["hits"] > 0


def test_rows_that_are_updated_are_read_anew():
    x = rows_of()
    store = hr.FeatureStore(node={"x": hr.CachedFeature(x.clone(), Recency(), rows=4)})
    cached = store.node["x"]
    cached.read(torch.tensor([1, 2]))
    cached.update(torch.tensor([2]), torch.full((1, 2), -1.0))
    assert cached.read(torch.tensor([2, 1])).rows.tolist() == [[-1.0, -1.0], x[1].tolist()]
    assert cached.stats()["invalidations"] == 1


class Slow(hr.FeatureSource):
    """Rows that another thread may change between a read's beginning and its end."""

    def __init__(self, rows):
        self.rows, self.inside, self.go_on = rows, threading.Event(), threading.Event()
        self.dtype, self.shape = rows.dtype, rows.shape

    @property
    def content_digest(self):
        return "slow rows"

    def read(self, ids, *, num_threads=1, to=None):
        rows = self.rows[ids.long()].clone()
        self.inside.set()
        assert self.go_on.wait(60)
        return hr.Rows(rows, {})

    def update(self, ids, rows):
        self.rows[ids.long()] = rows


def test_a_row_that_changes_while_it_is_read_is_not_kept():
    source = Slow(rows_of().clone())
    cached = hr.CachedFeature(source, Recency(), rows=4)
    reader = threading.Thread(target=lambda: cached.read(torch.tensor([3])))
    reader.start()
    assert source.inside.wait(60)
    cached.update(torch.tensor([3]), torch.zeros(1, 2))
    source.go_on.set()
    reader.join(60)
    assert cached.read(torch.tensor([3])).rows.tolist() == [[0.0, 0.0]]


def test_threads_share_a_cache():
    x, wrong = torch.randn(100, 4), []
    cached = hr.CachedFeature(x, Recency(), rows=20)

    def read(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(60):
            ids = torch.randint(0, 100, (15,), generator=generator)
            if not torch.equal(cached.read(ids).rows, x[ids]):
                wrong.append(seed)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = cached.stats()
    assert not wrong
    assert stats["hits"] + stats["misses"] == 4 * 60 * 15


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_a_copy_begins_empty(copied):
    cached = hr.CachedFeature(rows_of(), Recency(), rows=4)
    cached.read(torch.tensor([1, 2]))
    other = copied(cached)
    assert torch.equal(other.read(torch.tensor([1, 5])).rows, rows_of()[[1, 5]])
    assert other.stats()["hits"] == 0


def test_a_forked_process_reads_right_rows():
    cached = hr.CachedFeature(rows_of(), Recency(), rows=4)
    cached.read(torch.tensor([1, 2]))
    child = os.fork()
    if child == 0:
        right = torch.equal(cached.read(torch.tensor([2, 3, 2])).rows, rows_of()[[2, 3, 2]])
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Wrong(ext.CachePolicy):
    def __init__(self, answer):
        self.answer = answer

    def evict(self, kept, missed, count):
        return self.answer(kept) if callable(self.answer) else self.answer


@pytest.mark.parametrize(
    ("answer", "fragment"),
    [
        ([1], r"Wrong.evict: expected a CPU tensor int64\[n\] of rows to give up, got list"),
        (None, "got NoneType"),
        (torch.tensor([1.0]), r"got torch.float32\[1\]"),
        (torch.tensor([9]), r"at most 1 distinct rows among the 2 of `kept`, got \[9\]"),
        (lambda kept: kept, "at most 1 distinct rows"),
        (lambda kept: kept[[0, 0]], "at most 1 distinct rows"),
    ],
)
def test_answers_of_a_policy_are_checked(answer, fragment):
    cached = hr.CachedFeature(rows_of(), Wrong(answer), rows=2)
    cached.read(torch.tensor([1, 2]))
    with pytest.raises(hr.InputError, match=fragment):
        cached.read(torch.tensor([3]))
    assert torch.equal(cached.read(torch.tensor([2, 1])).rows, rows_of()[[2, 1]])
    assert cached.stats()["hits"] == 2


def test_a_cache_has_a_policy_of_its_own():
    policy = Recency()
    first = hr.CachedFeature(rows_of(), policy, rows=2)
    with pytest.raises(hr.InputError, match="expected a policy of its own for each cache, got a Recency that another"):
        hr.CachedFeature(rows_of(), policy, rows=2)
    other = hr.CachedFeature(rows_of(), copy.deepcopy(policy), rows=2)
    del first
    assert hr.CachedFeature(rows_of(), policy, rows=2).capacity == other.capacity


class NoCount(ext.CachePolicy):
    def evict(self, kept, missed):
        return kept[: len(missed)]


class UsedOfNothing(Never):
    def used(self):
        pass


@pytest.mark.parametrize(
    ("make", "fragment"),
    [
        (
            lambda: hr.CachedFeature(rows_of(), NoCount(), rows=2),
            r"NoCount.evict to take \(kept, missed, count\), got a function of \(kept, missed\), which takes fewer",
        ),
        (lambda: hr.CachedFeature(rows_of(), UsedOfNothing(), rows=2), r"UsedOfNothing.used to take \(ids\), got"),
        (
            lambda: hr.cached(hr.FeatureStore(node={"x": rows_of()}), bytes=200, policy=Never()),
            r"cached: expected a policy for all caches, .* got Never; give each feature a cache with one of its own",
        ),
        (lambda: hr.CachedFeature(rows_of(), Recency, rows=2), "expected a policy, one of .* or an hr.ext.CachePolicy"),
        (lambda: hr.CachedFeature(rows_of(), Recency(), rows=2, ids=[1]), "ids are those of a static cache"),
        (lambda: hr.CachedFeature(rows_of(), Recency(), rows=2, scores=torch.ones(12)), "expected no scores"),
        (lambda: hr.CachedFeature(rows_of(), Recency(), rows=2).expect(torch.tensor([1])), "look-ahead"),
        (lambda: hr.CachedFeature(rows_of(), Recency(), rows=2).read(torch.tensor([-1])), "ids from 0 to 11, got -1"),
        (lambda: hr.CachedFeature(rows_of(), Recency(), rows=2).read(torch.tensor([12])), "ids from 0 to 11, got 12"),
    ],
)
def test_refusals(make, fragment):
    with pytest.raises(hr.InputError, match=fragment):
        make()
