"""Shares, the running sums of short rows in sixteen bits, tell what the sums would, or nothing."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import ops
from headrace.ops import _native, reference

from instruction_sets import SETS

pytestmark = pytest.mark.kernel

MOST_DEGREE = 256
MOST_DRAWS = 32
LAST = 2**16 - 1


def edges_passed(weights, variate):
    """How many edges of the row the variate passes: whose running sums do not exceed its target."""
    sums = np.cumsum(weights.astype(np.float64))  # NumPy adds along a row in its order
    return int((sums <= reference.unit_interval(variate) * sums[-1]).sum())


@st.composite
def rows(draw):
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    weights = random.random(draw(st.integers(1, MOST_DEGREE))) ** draw(st.sampled_from([0, 1, 20]))
    weights[random.random(len(weights)) < draw(st.sampled_from([0.0, 0.5]))] = 0
    weights[random.integers(len(weights))] = 1
    return weights.astype(draw(st.sampled_from([np.float32, np.float64])))


@pytest.mark.parametrize("one", SETS)
@settings(max_examples=60, deadline=None)
@given(weights=rows(), scale=st.sampled_from([2.0**-950, 1.0, 2.0**900]))
def test_a_share_is_the_upper_bits_of_the_first_variate_that_passes(one, weights, scale):
    weights = weights.astype(np.float64) * scale
    shares, _ = _native.running_shares(weights, 0, 0, 0, 0, 0, one)
    for edge, share in enumerate(shares.tolist()):
        if share > 0:
            assert edges_passed(weights, (share << 48) - 1) <= edge
        if share < LAST:
            assert edges_passed(weights, ((share + 1) << 48) - 1) > edge
    assert shares[-1] == LAST


@pytest.mark.parametrize("one", SETS)
@settings(max_examples=60, deadline=None)
@given(weights=rows(), start=st.integers(0, 40), block=st.integers(0, 9), vertex=st.integers(0, 2**62))
def test_what_is_told_is_where_draws_fall(one, weights, start, block, vertex):
    padded = np.concatenate([np.full(start, 7, weights.dtype), weights])
    variates = list(islice(reference.stream_variates(5, vertex), 8 * block, 8 * block + MOST_DRAWS))
    for count in (1, 10, 12, 16, MOST_DRAWS):
        shares, told = _native.running_shares(padded, start, 5, vertex, block, count, one)
        assert told.tolist() == [edges_passed(weights, variate) for variate in variates[: len(told)]]
        # What is not told is so for a reason.
        assert len(told) == count or variates[len(told)] >> 48 in shares


@pytest.mark.parametrize("degree", [64, 200])
def test_all_sets_tell_as_many_draws(degree):
    """Draws behind the last that is asked for do not matter: some of a few dozen vertices have an equal share there."""
    weights = np.ones(degree, np.float32)
    for vertex in range(2000):
        for count in (1, 10, MOST_DRAWS):
            told = {len(_native.running_shares(weights, 0, 0, vertex, 0, count, one)[1]) for one in SETS}
            assert len(told) == 1


@pytest.mark.parametrize("one", SETS)
@pytest.mark.parametrize("degree", [1, 31, 32, 33, 64, 65, 255, 256])
def test_most_draws_are_told(one, degree):
    """Each draw has the upper bits of a share with probability at most degree / 2**16."""
    weights = np.ones(degree, np.float32)
    num_told = sum(
        len(_native.running_shares(weights, 0, 3, vertex, 0, MOST_DRAWS, one)[1]) == MOST_DRAWS
        for vertex in range(1000)
    )
    expected = 1000 * (1 - degree / 2**16) ** MOST_DRAWS
    assert num_told > expected - 5 * np.sqrt(1000 * 0.12 * 0.88)


@pytest.mark.parametrize("one", SETS)
@pytest.mark.parametrize("weight", [0.0, 1e-300, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("degree", [1, 64, 65, MOST_DEGREE])
def test_a_row_whose_total_is_tiny_or_not_positive_and_finite_tells_nothing(one, weight, degree):
    shares, told = _native.running_shares(np.full(degree, weight), 0, 1, 2, 0, MOST_DRAWS, one)
    assert not shares.any()
    assert len(told) == 0


@pytest.mark.parametrize(("degree", "count"), [(0, 1), (MOST_DEGREE + 1, 1), (8, MOST_DRAWS + 1)])
def test_refuses_what_has_no_shares(degree, count):
    with pytest.raises(ValueError, match="running_shares: expected"):
        _native.running_shares(np.ones(degree), 0, 0, 0, 0, count, SETS[0])


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanout", [1, 10, 15, 16, 17, 25, 31, 32, 33, 40, 100])
def test_samplers_that_have_shares_pick_what_others_do(replace, fanout):
    """With tables (BlockSampler) and without (sample_hop), at degrees around every limit."""
    degrees = np.repeat([1, 31, 32, 33, 63, 64, 65, 128, 255, 256, 257, 300], 40)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    random = np.random.default_rng(fanout)
    indices = random.integers(0, len(degrees), indptr[-1]).astype(np.int32)
    weights = random.random(len(indices)).astype(np.float32) ** 3
    weights[random.random(len(weights)) < 0.1] = 0
    weights[indptr[7] : indptr[8]] = 0
    seeds = torch.arange(len(degrees))
    rule = ops.NeighborRule(fanout, replace=replace)
    found = ops.BlockSampler(indptr, indices, weights=weights).sample(seeds, [rule], [3], num_threads=1)
    right = ops.sample_hop(indptr, indices, seeds, rule, 3, weights=weights)
    block = found.hops[0]
    np.testing.assert_array_equal(block.indptr, right.indptr)
    np.testing.assert_array_equal(block.edge_ids, right.positions)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("before", [0, 1, 6, 15])
def test_where_weights_begin_on_a_cache_line_changes_no_pick(replace, dtype, before):
    degrees = np.array([1, 300, 15, 17, 1000, 257, 5000, 260])
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    padded = np.zeros(indptr[-1] + 32, dtype)
    line = 64 // padded.itemsize
    first = (-(padded.ctypes.data // padded.itemsize) + before) % line
    weights = padded[first : first + indptr[-1]]
    assert weights.ctypes.data % 64 == before % line * padded.itemsize
    weights[:] = np.random.default_rng(7).random(indptr[-1]) ** 2
    indices = np.zeros(indptr[-1], np.int64)
    seeds, rule = torch.arange(len(degrees)), ops.NeighborRule(12, replace=replace)
    for key in range(50):
        found = ops.BlockSampler(indptr, indices, weights=weights).sample(seeds, [rule], [key]).hops[0]
        right = ops.sample_hop(indptr, indices, seeds, rule, key, weights=weights.copy())
        np.testing.assert_array_equal(found.edge_ids, right.positions)


def test_tables_are_two_and_a_half_bytes_an_edge():
    num_edges = 20_000
    indptr = np.arange(0, num_edges + 1, 20)
    indices = np.zeros(num_edges, np.int32)
    sampler = ops.BlockSampler(indptr, indices, weights=np.ones(num_edges))
    seeds = torch.arange(10)
    sampler.sample(seeds, [ops.LaborRule(5)], [0])
    before = sampler.scratch_bytes
    sampler.sample(seeds, [ops.NeighborRule(5)], [0])
    assert sampler.scratch_bytes - before == 8 * (num_edges // 16 + 1) + 2 * num_edges
