"""The cache index of a GPU against its oracle: the same slots, rooms and counts, under every schedule."""

from __future__ import annotations

from contextlib import nullcontext

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from headrace import ops
from headrace.cuda.backend import stand_in
from headrace.ops import SetIndex
from headrace.ops.reference import SetCache

from cuda_host.stand_in import StandIn
from gpu.kinds import GPUS
from gpu.moved import moved_to_gpu


@pytest.fixture(autouse=True, scope="module", params=GPUS)
def gpu(request):
    """Let what stands in for a GPU find slots, then a GPU, if there is one."""
    if request.param == "gpu":
        with moved_to_gpu(request.module):
            yield request.param
        return
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    with stand_in(StandIn()):
        yield request.param
    torch.use_deterministic_algorithms(False)


@st.composite
def traces(draw, most_ids=60):
    """Some reads, of which each knows some of those to come, and others that never come."""
    num_ids = draw(st.integers(1, most_ids))
    read = st.lists(st.integers(0, num_ids - 1), max_size=20)
    return num_ids, draw(st.lists(read, max_size=8)), draw(st.integers(0, 4))


def tensors(reads, dtype):
    return [torch.tensor(read, dtype=dtype) for read in reads]


def agree(index, oracle, reads, window, dtypes=(torch.int64, torch.int64), *, keep_found=True):
    """Compare read by read."""
    for number, read in enumerate(reads):
        coming = reads[number + 1 : number + 1 + window]
        slots, fills = oracle.look_up(read, coming, keep_found=keep_found)
        lookup = index.look_up(torch.tensor(read, dtype=dtypes[0]), tensors(coming, dtypes[1]), keep_found=keep_found)
        assert lookup.slots.tolist() == slots
        assert lookup.fills.tolist() == fills
        assert index.ids_in_slots.tolist() == [oracle.id_in.get(slot, -1) for slot in range(index.num_slots)]
        given_out = [fill for fill in fills if fill >= 0]
        assert len(set(given_out)) == len(given_out)
        if keep_found:
            assert not set(given_out) & set(slots)
    assert index.counts() == oracle.counts()


@given(
    traces(),
    st.integers(0, 80),
    st.booleans(),
    st.booleans(),
    st.sampled_from([torch.int32, torch.int64]),
    st.sampled_from([torch.int32, torch.int64]),
)
def test_agrees_with_the_oracle(trace, num_slots, keep_found, knows_ids, of_reads, of_expected):
    num_ids, reads, window = trace
    options = {"num_ids": num_ids} if knows_ids else {}
    index, oracle = SetIndex(num_slots, "cuda", **options), SetCache(num_slots, **options)
    agree(index, oracle, reads, window, (of_reads, of_expected), keep_found=keep_found)


@pytest.mark.slow
@pytest.mark.combinations(18)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("keep_found", [True, False])
def test_long_skewed_traces_under_another_schedule_each(seed, keep_found, gpu):
    random = np.random.default_rng(seed)
    reads = [(random.random(random.integers(0, 90)) ** 2 * 400).astype(np.int64).tolist() for _ in range(12)]
    num_slots = int(random.choice([1, 7, 32, 33, 64, 150]))
    with stand_in(StandIn(seed)) if gpu == "cuda_host" else nullcontext():
        agree(SetIndex(num_slots, "cuda"), SetCache(num_slots), reads, seed % 5, keep_found=keep_found)


def test_of_very_many_missing_ids_of_a_set_the_first_ones_compete():
    reads = [list(range(300)), list(range(100, 400)), [299, 130, 127]]
    for window in (0, 2):
        agree(SetIndex(20, "cuda"), SetCache(20), reads, window)


def test_all_ids_fit_where_there_are_as_many_slots():
    for num_ids in (1, 31, 32, 33, 100, 1000):
        index = SetIndex(num_ids, "cuda", num_ids=num_ids)
        every = torch.randperm(num_ids)
        assert sorted(index.look_up(every).fills.tolist()) == list(range(num_ids))
        assert (index.look_up(every).slots >= 0).all()
        assert index.counts() == {"hits": num_ids, "misses": num_ids, "evictions": 0, "bypasses": 0}


def test_sets_are_about_equally_full():
    """Ids in a row, and with a stride: a hash that leaves sets empty would make room where there is some."""
    for stride in (1, 32, 64, 1 << 20, 1 << 32):
        index = SetIndex(32 * 64, "cuda")
        index.look_up(torch.arange(2048) * stride)
        assert index.counts()["bypasses"] < 2048 // 8


def fewest_misses(reads, num_slots):
    """By trying all ways to keep or give up: those of reads of single ids."""
    misses = {frozenset(): 0}
    for one in reads:
        after: dict[frozenset, int] = {}
        for held, count in misses.items():
            missed = count + (one not in held)
            others = [held - {other} for other in held] if len(held) == num_slots else [held]
            for following in [held] if one in held else [held, *(rest | {one} for rest in others)]:
                after[following] = min(after.get(following, missed), missed)
        misses = after
    return min(misses.values())


@given(st.lists(st.integers(0, 4), max_size=12), st.integers(1, 3))
def test_no_rule_misses_less_than_one_that_knows_all_reads(reads, num_slots):
    index = SetIndex(num_slots, "cuda")
    single = tensors([[one] for one in reads], torch.int64)
    for number, ids in enumerate(single):
        index.look_up(ids, single[number + 1 :], keep_found=False)
    assert index.counts()["misses"] == fewest_misses(reads, num_slots)


def test_expectations_of_another_read_are_forgotten():
    index = SetIndex(1, "cuda")
    one, two = torch.tensor([1]), torch.tensor([2])
    index.look_up(one, [one])
    assert index.look_up(two, [one]).fills.tolist() == [-1]
    assert index.look_up(two).fills.tolist() == [0]


def test_ids_below_0_go_past():
    index = SetIndex(4, "cuda")
    for _ in range(2):
        assert index.look_up(torch.tensor([-1, -5]), [torch.tensor([-1])]).fills.tolist() == [-1, -1]
    assert index.look_up(torch.tensor([-1])).slots.tolist() == [-1]
    assert index.counts() == {"hits": 0, "misses": 5, "evictions": 0, "bypasses": 5}


def test_refuses_what_does_not_fit(monkeypatch):
    index = SetIndex(4, "cuda")
    for ids in (torch.tensor([1.0]), torch.tensor([[1]]), [1]):
        with pytest.raises(ops.InputError, match="look_up: expected ids"):
            index.look_up(ids)
        with pytest.raises(ops.InputError, match=r"look_up: expected expected\[0\]"):
            index.look_up(torch.tensor([1]), [ids])
    for options in ({"num_slots": -1}, {"num_slots": 1, "num_ids": -1}):
        with pytest.raises(ops.InputError, match="at least 0"):
            SetIndex(device="cuda", **options)
    from headrace.cuda import backend

    monkeypatch.setattr(backend, "_stand_in", None)
    from headrace.ops.errors import HeadraceError

    with pytest.raises(HeadraceError, match=r"in CPU memory ops\.CacheIndex is the cache"):
        SetIndex(4, "cpu")
