"""The inner loops of LABOR: every instruction set finds what the reference finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ops import BlockSampler, LaborRule, _native, reference, sample_hop

from instruction_sets import SETS

pytestmark = pytest.mark.kernel


def expected(ids, key, bound, wanted):
    high = np.array([reference.labor_variate(key, int(node)) >> 32 for node in ids], dtype=np.uint32)
    offsets = np.flatnonzero(high <= bound)
    found = high[offsets]
    smaller = (found[None, :] < found[:, None]).sum(axis=1)
    return found, offsets, offsets[smaller < wanted]


@pytest.mark.slow
@pytest.mark.parametrize("one", SETS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_finds_what_the_reference_finds(one, dtype, data):
    count = data.draw(st.integers(0, 70), label="ids")
    largest = np.iinfo(dtype).max
    ids = np.array(data.draw(st.lists(st.integers(0, largest), min_size=count, max_size=count)), dtype=dtype)
    if data.draw(st.booleans(), label="repeated ids"):
        ids = ids[np.arange(count) // 2] if count else ids
    key = data.draw(st.integers(0, 2**64 - 1), label="key")
    bound = data.draw(st.sampled_from([0, 1 << 30, 1 << 31, (1 << 32) - 1]) | st.integers(0, 2**32 - 1), label="bound")
    wanted = data.draw(st.integers(0, 20), label="wanted")
    for found, right in zip(
        _native.labor_scan(ids, key, bound, wanted, one), expected(ids, key, bound, wanted), strict=True
    ):
        np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("one", SETS)
def test_long_rows_select_instead_of_counting(one):
    ids = np.arange(5000, dtype=np.int32) * 7
    for wanted in (1, 100, 4999, 5000):
        _, _, kept = _native.labor_scan(ids, 99, (1 << 32) - 1, wanted, one)
        np.testing.assert_array_equal(kept, expected(ids, 99, (1 << 32) - 1, wanted)[2])


@pytest.mark.parametrize("one", SETS)
def test_known_answers(one):
    """philox4x32-7 of zeros, from the kat_vectors file of Random123."""
    high, _, _ = _native.labor_scan(np.zeros(1, np.int64), 0, (1 << 32) - 1, 1, one)
    assert high.tolist() == [0x5F6FB709]
    assert reference.philox4x32([0] * 4, [0] * 2, rounds=7) == (0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_variates_of_parallel_edges(instructions, dtype):
    """Each has its source and its number, and all bits of both count; of any count, as the last ones come singly."""
    random = np.random.default_rng(3)
    for count in range(20):
        sources = random.integers(0, np.iinfo(dtype).max, count, dtype, endpoint=True)
        numbers = random.integers(0, 2**32, count, np.uint32)
        numbers[::3] = np.arange(len(numbers[::3]))
        key = int(random.integers(0, 2**64, dtype=np.uint64))
        right = [reference.labor_variate(key, int(t), int(j)) for t, j in zip(sources, numbers, strict=True)]
        assert _native.labor_variates(key, sources, numbers).tolist() == right


@pytest.mark.parametrize("rule", [LaborRule(20), LaborRule(20, exact=False)], ids=str)
def test_rows_of_many_parallel_edges_equal_the_reference(instructions, rule):
    """Rows of all numbers of repeats, in a graph that was looked through and in rows that are looked through."""
    random = np.random.default_rng(4)
    degrees = np.arange(21, 60)
    rows = [random.integers(0, random.integers(1, 60), degree) for degree in degrees]
    indptr = np.concatenate([[0], np.cumsum(degrees), np.full(60 - len(degrees), degrees.sum())])
    indices, frontier = np.concatenate(rows), np.arange(len(degrees))
    sampler = BlockSampler(indptr, indices)
    for key in range(5):
        right = reference.sample_hop(indptr, indices, frontier, rule, key)
        hop = sample_hop(indptr, indices, frontier, rule, key)
        fused = sampler.sample(frontier, [rule], [key]).hops[0]
        assert hop.positions.tolist() == fused.edge_ids.tolist() == list(right.positions)
