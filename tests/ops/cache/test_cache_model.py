"""Look-ups of a cache, access by access, against a model that keeps plain lists."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import ops
from headrace.ops import reference
from headrace.ops.cache.index import POLICIES

NUM_ROWS = 20


@st.composite
def traces(draw, policy):
    """A capacity, what the policy takes, and what is done with the cache."""
    capacity = draw(st.integers(0, 12))
    rows = st.lists(st.integers(0, NUM_ROWS - 1), max_size=12)
    kinds = ["read", "read", "read", "read", "invalidate"]
    if policy == "look-ahead":
        kinds += ["expect", "expect", "read expected", "read expected", "read expected", "expect nothing"]
    steps = draw(st.lists(st.tuples(st.sampled_from(kinds), rows, st.integers(0, 3)), max_size=40))
    ids = draw(st.permutations(range(NUM_ROWS)))[:capacity] if policy == "static" else None
    levels = draw(st.none() | st.permutations(range(NUM_ROWS))) if policy == "look-ahead" else None
    return capacity, ids, levels, steps


def made(policy, capacity, ids, levels):
    scores = None if levels is None else torch.tensor(levels, dtype=torch.float64)
    index = ops.CacheIndex(
        policy, capacity, NUM_ROWS, ids=None if ids is None else torch.tensor(ids, dtype=torch.int64), scores=scores
    )
    return index, reference.CacheIndex(policy, capacity, NUM_ROWS, ids, levels)


def as_model(lookup):
    """What a look-up says, in the words of the model."""
    pairs = [
        zip(a.tolist(), b.tolist(), strict=True)
        for a, b in (
            (lookup.hit_positions, lookup.hit_slots),
            (lookup.fill_positions, lookup.fill_slots),
            (lookup.repeat_positions, lookup.repeated_positions),
        )
    ]
    hits, fills, repeats = pairs
    return list(hits), lookup.miss_positions.tolist(), dict(fills), list(repeats)


def check_slots(index, model):
    """The rows in slots are those of the model, none of them twice."""
    in_slots = {row: slot for slot, row in enumerate(index.ids_in_slots.tolist()) if row >= 0}
    assert in_slots == model.ready
    assert len(set(in_slots.values())) == len(in_slots)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
def test_agrees_with_the_model(policy, data):
    capacity, ids, levels, steps = data.draw(traces(policy))
    index, model = made(policy, capacity, ids, levels)
    expected, evicted = [], 0
    for kind, drawn, which in steps:
        rows = drawn
        if kind == "expect":
            expected.append(rows)
            index.expect(torch.tensor(rows, dtype=torch.int64))
            model.policy.expect(rows)
        elif kind == "expect nothing":
            expected = []
            index.expect_nothing()
            model.policy.expect_nothing()
        elif kind == "invalidate":
            index.invalidate(torch.tensor(rows, dtype=torch.int64))
            model.invalidate(rows)
        else:
            if kind == "read expected" and expected:
                rows = expected.pop(min(which, len(expected) - 1))
            lookup = index.look_up(torch.tensor(rows, dtype=torch.int64))
            read = model.read(rows)
            assert as_model(lookup) == (read.hits, read.misses, read.fills, read.repeats)
            assert lookup.miss_ids.tolist() == [rows[position] for position in read.misses]
            evicted += len(read.evicted)
            lookup.finish(True)
        check_slots(index, model)
        assert index.counts()["evictions"] == evicted
    if policy == "look-ahead":
        assert index.num_expected == len(model.policy.awaited)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("capacity", [1, 3, 8])
def test_reads_that_overlap_agree_with_the_model(policy, capacity):
    """Up to three at once, looked up and finished nearly in order; most of them are expected."""
    for seed in range(40):
        random = np.random.default_rng(seed)
        index, model = made(policy, capacity, list(range(capacity)) if policy == "static" else None, None)
        coming, reading = [], []
        for _ in range(100):
            while len(coming) < 6:
                ids = (random.random(random.integers(1, 4)) ** 2 * NUM_ROWS / 2).astype(np.int64)
                coming.append(ids)
                if policy == "look-ahead" and random.random() < 0.9:
                    index.expect(ids)
                    model.policy.expect(ids.tolist())
            if len(reading) == 3 or (reading and random.random() < 0.4):
                lookup, read = reading.pop(random.integers(len(reading)))
                lookup.finish(True)
                model.finish(read)
            else:
                ids = coming.pop(random.integers(2))
                lookup, read = index.look_up(ids), model.look_up(ids.tolist())
                assert as_model(lookup) == (read.hits, read.misses, read.fills, read.repeats)
                reading.append((lookup, read))
            if policy == "look-ahead" and random.random() < 0.02:
                index.expect_nothing()
                model.policy.expect_nothing()
            check_slots(index, model)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("capacity", [1, 3, 8])
def test_rows_that_are_invalidated_leave_the_order_as_the_model_has_it(policy, capacity):
    random = np.random.default_rng(capacity)
    index, model = made(policy, capacity, list(range(capacity)) if policy == "static" else None, None)
    for _ in range(600):
        ids = (random.random(random.integers(1, 4)) ** 2 * NUM_ROWS / 2).astype(np.int64)
        if random.random() < 0.3:
            index.invalidate(torch.from_numpy(ids))
            model.invalidate(ids.tolist())
        else:
            lookup, read = index.look_up(ids), model.read(ids.tolist())
            assert as_model(lookup) == (read.hits, read.misses, read.fills, read.repeats)
            lookup.finish(True)
        check_slots(index, model)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("capacity", [1, 7, 60, 300])
def test_agrees_with_the_model_on_long_skewed_traces(policy, capacity):
    num_rows = 300
    random = np.random.default_rng(capacity)
    reads = [(random.random(40) ** 3 * num_rows).astype(np.int64) for _ in range(60)]
    ids = random.permutation(num_rows)[:capacity] if policy == "static" else None
    index = ops.CacheIndex(policy, capacity, num_rows, ids=ids)
    model = reference.CacheIndex(policy, capacity, num_rows, None if ids is None else ids.tolist())
    if policy == "look-ahead":
        model.policy.counts = Counts(capacity, num_rows)
        for read in reads[:8]:
            index.expect(read)
            model.policy.expect(read.tolist())
    for number, read in enumerate(reads):
        lookup = index.look_up(read)
        made = model.read(read.tolist())
        assert as_model(lookup) == (made.hits, made.misses, made.fills, made.repeats)
        lookup.finish(True)
        check_slots(index, model)
        if policy == "look-ahead" and number + 8 < len(reads):
            index.expect(reads[number + 8])
            model.policy.expect(reads[number + 8].tolist())


class Counts:
    """The sketch that stands for counts where there are more rows than it has counters: the lower of two."""

    def __init__(self, capacity, num_rows):
        self.bits = max(6, (8 * capacity - 1).bit_length())
        self.is_exact = num_rows <= 1 << self.bits
        self.counters = [0] * max(num_rows, 1 << self.bits)

    def places(self, row):
        if self.is_exact:
            return {row}
        mask = (1 << 64) - 1
        return {(row * key & mask) >> (64 - self.bits) for key in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)}

    def __getitem__(self, row):
        return min(self.counters[place] for place in self.places(row))

    def __setitem__(self, row, count):
        assert count == self[row] + 1
        for place in self.places(row):
            self.counters[place] += 1


def test_reads_that_were_passed_over_are_given_up():
    index, model = made("look-ahead", 4, None, None)
    reads = [[number % 10, 10 + number // 10] for number in range(80)]
    for read in reads:
        index.expect(torch.tensor(read))
        model.policy.expect(read)
    for number in range(1, 80):
        lookup = index.look_up(torch.tensor(reads[number]))
        read = model.read(reads[number])
        assert as_model(lookup) == (read.hits, read.misses, read.fills, read.repeats)
        lookup.finish(True)
        check_slots(index, model)
        assert index.num_expected == len(model.policy.awaited)
    assert index.num_expected == 0


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "static"])
def test_rows_of_a_read_that_failed_are_not_found(policy):
    index = ops.CacheIndex(policy, 3, NUM_ROWS)
    index.look_up(torch.tensor([1, 2, 3])).finish(True)
    lookup = index.look_up(torch.tensor([4, 1, 5]))
    lookup.finish(False)
    assert set(index.ids_in_slots.tolist()) <= {-1, 1, 2, 3}
    assert index.look_up(torch.tensor([4])).miss_ids.tolist() == [4]
    assert index.counts()["misses"] == 3
    with pytest.raises(ops.InputError, match="over"):
        lookup.finish(True)


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "static"])
def test_what_a_read_holds_is_not_replaced(policy):
    index = ops.CacheIndex(policy, 2, NUM_ROWS)
    index.look_up(torch.tensor([1, 2])).finish(True)
    reading = index.look_up(torch.tensor([1, 2, 1]))
    other = index.look_up(torch.tensor([3, 1, 4]))
    assert other.hit_slots.tolist() == reading.hit_slots.tolist()[:1]
    assert other.fill_slots.tolist() == []
    other.finish(True)
    assert index.counts()["bypasses"] == 2
    reading.finish(True)
    assert len(index.look_up(torch.tensor([3])).fill_slots) == (policy != "look-ahead")  # it was not used more


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "static"])
def test_what_a_read_holds_lets_others_make_room(policy):
    """Though it was used before them."""
    index = ops.CacheIndex(policy, 3, NUM_ROWS)
    index.look_up(torch.tensor([1, 2, 3])).finish(True)
    reading = index.look_up(torch.tensor([1]))
    index.look_up(torch.tensor([2, 3])).finish(True)
    other = index.look_up(torch.tensor([4, 5]))
    assert reading.hit_slots.tolist()[0] not in other.fill_slots.tolist()
    other.finish(True)
    reading.finish(True)


def test_a_row_that_another_read_is_filling_in_is_missing():
    index = ops.CacheIndex("lru", 2, NUM_ROWS)
    one, other = index.look_up(torch.tensor([1])), index.look_up(torch.tensor([1, 1]))
    assert other.miss_ids.tolist() == [1]
    assert other.repeat_positions.tolist() == [1]
    assert other.fill_slots.tolist() == []
    other.finish(True)
    one.finish(True)
    assert index.counts() == {"hits": 1, "misses": 2, "evictions": 0, "bypasses": 1, "invalidations": 0}


@pytest.mark.parametrize("policy", POLICIES)
def test_what_was_outdated_while_it_was_read_is_not_found(policy):
    ids = torch.tensor([1, 2]) if policy == "static" else None
    index = ops.CacheIndex(policy, 2, NUM_ROWS, ids=ids)
    filling = index.look_up(torch.tensor([1, 2]))
    index.invalidate(torch.tensor([1]))
    assert index.look_up(torch.tensor([1])).miss_ids.tolist() == [1]
    filling.finish(True)
    assert sorted(index.ids_in_slots.tolist()) == [-1, 2]
    hit = index.look_up(torch.tensor([2]))
    index.invalidate(torch.tensor([2]))
    meanwhile = index.look_up(torch.tensor([2]))
    assert meanwhile.miss_ids.tolist() == [2]
    assert meanwhile.fill_slots.tolist() == []
    meanwhile.finish(True)
    hit.finish(True)
    assert index.ids_in_slots.tolist() == [-1, -1]
    assert len(index.look_up(torch.tensor([2])).fill_slots) == 1


def test_a_look_up_that_is_dropped_has_failed():
    index = ops.CacheIndex("lru", 1, NUM_ROWS)
    index.look_up(torch.tensor([1]))
    assert index.ids_in_slots.tolist() == [-1]
    index.look_up(torch.tensor([2])).finish(True)
    assert index.ids_in_slots.tolist() == [2]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_ids_of_both_dtypes(dtype):
    index = ops.CacheIndex("sieve", 2, NUM_ROWS)
    assert index.look_up(torch.tensor([0, NUM_ROWS - 1], dtype=dtype)).miss_ids.tolist() == [0, NUM_ROWS - 1]


@pytest.mark.parametrize("bad", [-1, NUM_ROWS])
def test_refuses_ids_without_a_row(bad):
    index = ops.CacheIndex("look-ahead", 2, NUM_ROWS)
    for method in (index.look_up, index.invalidate, index.expect):
        with pytest.raises(ops.InputError, match=r"ids\[1\]"):
            method(torch.tensor([0, bad]))
    assert index.num_expected == 0


def test_refuses_what_does_not_fit():
    for arguments, options, message in (
        (("mru", 1, 2), {}, "lru, clock"),
        (("lru", 3, 2), {}, "capacity <= num_rows"),
        (("lru", -1, 2), {}, "at least 0"),
        (("static", 1, 2), {}, "takes ids"),
        (("lru", 1, 2), {"ids": torch.tensor([1])}, "takes ids"),
        (("static", 2, 2), {"ids": torch.tensor([1])}, "one entry per slot"),
        (("static", 2, 2), {"ids": torch.tensor([1, 1])}, "distinct"),
        (("static", 1, 2), {"ids": torch.tensor([2])}, "no row"),
        (("sieve", 1, 2), {"scores": torch.zeros(2).double()}, "takes ids"),
        (("look-ahead", 1, 2), {"scores": torch.zeros(1).double()}, "score for each"),
    ):
        with pytest.raises(ops.InputError, match=message):
            ops.CacheIndex(*arguments, **options)
    for index in (ops.CacheIndex("lru", 1, 2),):
        for method, given_ids in ((index.expect, (torch.tensor([1]),)), (index.expect_nothing, ())):
            with pytest.raises(ops.InputError, match="look-ahead"):
                method(*given_ids)


def test_memory_depends_on_the_slots_not_on_the_rows():
    for policy in POLICIES:
        if policy != "static":
            few, many = (ops.CacheIndex(policy, 1000, rows).num_bytes for rows in (10**6, 10**12))
            assert few == many < 200 * 1000
