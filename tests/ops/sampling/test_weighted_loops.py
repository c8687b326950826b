"""The inner loops of weighted picks: every instruction set finds what the reference finds."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ops import _native, reference

from instruction_sets import SETS

pytestmark = pytest.mark.kernel

NEVER = 2**64 - 1


def expected(weights, key, identifier, wanted):
    """Variates behind block `wanted`, the edges they fall on, arrivals as bits, the earliest arrivals."""
    degree = len(weights)
    variates = list(islice(reference.stream_variates(key, identifier), 8 * wanted, 8 * wanted + degree))
    sums = np.cumsum(weights.astype(np.float64))  # NumPy adds along a row in its order
    units = [reference.unit_interval(variate) for variate in variates]
    edges = [int(np.flatnonzero(sums > unit * sums[-1])[0]) for unit in units]
    times = [
        int(np.float64(reference.negative_log(unit) / float(weight)).view(np.uint64)) if weight > 0 else NEVER
        for unit, weight in zip(units, weights, strict=True)
    ]
    kept = [i for i in range(degree) if sum(other < times[i] for other in times) < wanted]
    return variates, edges, edges, times, kept


@pytest.mark.parametrize("one", SETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_finds_what_the_reference_finds(one, dtype, data):
    degree = data.draw(st.integers(1, 200), label="degree")
    random = np.random.default_rng(data.draw(st.integers(0, 2**32), label="weights"))
    weights = random.random(degree) ** data.draw(st.sampled_from([0, 1, 20]), label="skew")
    weights[random.random(degree) < data.draw(st.sampled_from([0.0, 0.5]), label="zeros")] = 0
    weights[random.integers(degree)] = 1
    weights = weights.astype(dtype)
    key = data.draw(st.integers(0, 2**64 - 1), label="key")
    identifier = data.draw(st.integers(0, 2**62), label="id")
    wanted = data.draw(st.integers(0, degree), label="wanted")
    start = data.draw(st.integers(0, 40), label="start")
    padded = np.concatenate([np.full(start, 7, dtype), weights])
    found = _native.weighted_loops(padded, start, key, identifier, wanted, one)
    for got, right in zip(found, expected(weights, key, identifier, wanted), strict=True):
        assert got.tolist() == right


@pytest.mark.parametrize("block", [2**31 - 2, 2**31 - 1, 2**32 - 2])
def test_all_sets_begin_blocks_anew_alike(block):
    """Block 2**31 of variates would take block 2**32 of the third stream, whose number has more than 32 bits."""
    weights = np.ones(70)
    variates = [_native.weighted_loops(weights, 0, 3, 4, block, one)[0].tolist() for one in SETS]
    assert all(found == variates[0] for found in variates)


@pytest.mark.parametrize("one", SETS)
@pytest.mark.parametrize("skew", [0, 1, 30], ids=["equal", "uniform", "skewed"])
@pytest.mark.parametrize(("start", "dtype"), [(0, "float64"), (1, "float32"), (15, "float64"), (16, "float32")])
def test_finds_edges_of_long_rows(one, skew, start, dtype):
    """From a good guess or a bad one, the edge is the one that bisection finds."""
    weights = (np.random.default_rng(skew).random(20_000 + start) ** skew).astype(dtype)
    variates, edges, searched, _, _ = _native.weighted_loops(weights, start, 3, 4, 0, one)
    sums = np.cumsum(weights[start:].astype(np.float64))
    units = np.array([reference.unit_interval(int(variate)) for variate in variates])
    right = np.searchsorted(sums, units * sums[-1], side="right")
    np.testing.assert_array_equal(edges, right)
    np.testing.assert_array_equal(searched, right)


@pytest.mark.parametrize("one", SETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(data=st.data())
def test_a_race_of_few_edges(one, dtype, data):
    """Of few variates and weights, so that edges arrive at the same time: if one of them is the last, none is named."""
    degree = data.draw(st.integers(1, 16), label="degree")
    weights = np.array(data.draw(st.lists(st.sampled_from([0, 1, 2]), min_size=degree, max_size=degree)), dtype)
    values = st.sampled_from([1 << 20, 1 << 60, 1 << 63])
    variates = np.array(data.draw(st.lists(values, min_size=16, max_size=16)), np.uint64)
    wanted = data.draw(st.integers(0, 17), label="wanted")
    found = _native.race_at_once(weights, variates, wanted, one)
    times = [
        reference.negative_log(reference.unit_interval(int(variate))) / float(weight) if weight > 0 else np.inf
        for weight, variate in zip(weights, variates, strict=False)
    ]
    won = [i for i, time in enumerate(times) if time < np.inf and sum(other < time for other in times) < wanted]
    if one.name != "AVX512" or len(won) > wanted:
        assert found is None
    else:
        assert found.tolist() == won
