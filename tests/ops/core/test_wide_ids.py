"""Node ids of more than 32 bits: graphs that have so many nodes do not fit here, but a row can name them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from headrace.ops import LaborRule, NeighborRule, _native, reference, sample_hop

from instruction_sets import SETS

pytestmark = pytest.mark.kernel

NUM_EDGES = 200
RULES = [LaborRule(9), LaborRule(9, exact=False), NeighborRule(9)]


@pytest.fixture(params=SETS, ids=str)
def _one_set(request):
    assert _native.use_instruction_set(request.param)
    yield
    assert _native.use_instruction_set(SETS[-1])


def row(high):
    """One row whose sources are all different in their lower halves, the upper half of all being `high`."""
    return torch.tensor([0, NUM_EDGES]), torch.arange(NUM_EDGES) * 5 + (high << 32)


@pytest.mark.usefixtures("_one_set")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_hops_equal_the_reference(rule, weighted):
    weights = torch.rand(NUM_EDGES, generator=torch.Generator().manual_seed(0)) + 0.1 if weighted else None
    array = None if weights is None else weights.double().numpy()
    picked = set()
    for high in (0, 1, 1 << 20):
        indptr, indices = row(high)
        hop = sample_hop(indptr, indices, torch.tensor([0]), rule, 7, weights=weights)
        expected = reference.sample_hop(indptr.numpy(), indices.numpy(), np.array([0]), rule, 7, weights=array)
        assert hop.positions.tolist() == expected.positions.tolist()
        assert torch.equal(hop.neighbors, indices[hop.positions])
        picked.add(tuple(hop.positions.tolist()))
    # The upper half of a source's id has a say in its variate; uniform picks are keyed by the destination.
    assert len(picked) == (1 if isinstance(rule, NeighborRule) else 3)


@pytest.mark.usefixtures("_one_set")
def test_an_upper_half_is_told_from_another_in_one_row():
    """All ids of the row are equal in their lower halves, so that variates of 32 bits would all be one."""
    indices = torch.arange(NUM_EDGES) << 32
    for weights in (None, torch.ones(NUM_EDGES)):
        hop = sample_hop(torch.tensor([0, NUM_EDGES]), indices, torch.tensor([0]), LaborRule(9), 3, weights=weights)
        variates = [reference.labor_variate(3, source) for source in indices.tolist()]
        assert hop.positions.tolist() == sorted(np.argsort(variates)[:9].tolist())


def test_the_table_compares_whole_ids():
    """Ids that are equal in the half that a slot holds, and that the table's hash puts into the same slot as well."""
    inverse = pow(0x7F4A7C15, -1, 1 << 32)  # of the multiplier's lower half
    high = [factor * inverse % 2**32 for factor in range(1, 400)]
    low = np.arange(20)
    neighbors = np.concatenate([low, *(low + (upper << 32) for upper in high if upper < 2**29), low])
    assert len(neighbors) >= 60
    compactor = _native.Compactor(2**61)
    expected = reference.compact(low[:5], neighbors)
    for found, local in (compactor.compact(low[:5], neighbors), _native.compact(low[:5], neighbors)):
        assert found.tolist() == expected[0].tolist()
        assert local.tolist() == expected[1].tolist()


def test_a_threshold_is_compared_by_all_64_bits():
    """A row of d edges and a fanout of k such that k / d differs from a source's variate in the lower words alone."""
    key, kept = 5, {True: 0, False: 0}
    for source in range(60):
        variate = reference.labor_variate(key, source)
        share = Fraction(variate, 1 << 64).limit_denominator(150_000)
        fanout, degree = share.numerator, share.denominator
        largest = ((fanout << 64) - 1) // degree
        if degree <= source or fanout == 0 or variate >> 32 != largest >> 32:
            continue
        hop = sample_hop(
            torch.tensor([0, degree]), torch.arange(degree), torch.tensor([0]), LaborRule(fanout, exact=False), key
        )
        assert (source in hop.neighbors) is (variate <= largest)
        kept[variate <= largest] += 1
    assert min(kept.values()) > 5


def test_equal_high_words_are_told_apart_by_the_low_ones():
    """Pairs of sources whose variates begin with the same 32 bits: the smaller one is picked, wherever it stands."""
    key = 5
    ids = np.arange(400_000)
    high = _native.labor_scan(ids, key, 2**32 - 1, 0, SETS[-1])[0]
    order = np.argsort(high, kind="stable")
    equal = np.flatnonzero(high[order][1:] == high[order][:-1])
    assert len(equal) > 5
    for pair in np.stack([order[equal], order[equal + 1]], axis=1):
        smaller = min(pair.tolist(), key=lambda source: reference.labor_variate(key, source))
        for sources in (pair, pair[::-1]):
            hop = sample_hop(
                torch.tensor([0, 2]), torch.from_numpy(sources.copy()), torch.tensor([0]), LaborRule(1), key
            )
            assert hop.neighbors.tolist() == [smaller]
