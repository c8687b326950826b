"""Uniform picks are uniform: over neighbours and over subsets, from 3 in-edges to a million.

Chi-square tests at ALPHA with fixed keys. What they can see is computed, not hoped for: `test_power` holds every test
of neighbours to finding half of the in-edges 3 % likelier than the other half, and every test of subsets to finding
10 %, each with probability 0.999; and the biased schemes of other libraries are fed to the same tests, which refuse
them. What they cannot see: one neighbour among 40,000 or more that is never picked, or a bias of 2 ** -32 times the
degree such as a remainder of 32-bit words leaves (0.02 % at a million).
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch
from scipy import stats

from headrace.ops import NeighborRule, sample_hop

pytestmark = [pytest.mark.slow, pytest.mark.law]

ALPHA = 1e-4
DEGREES = [3, 5, 37, 1_000, 40_000, 1_000_000]
FANOUTS = {3: 2, 5: 3, 37: 10, 1_000: 100, 40_000: 1_000, 1_000_000: 1_000}  # a scan of the picks, or a hash table
NUM_PICKS = 4_000_000
NUM_SUBSETS = 200_000
NUM_BINS = 16


def pvalue(counts, probabilities, scale=1.0):
    """Chi-square test; `scale` corrects for picks that depend on each other."""
    expected = counts.sum() * probabilities
    return stats.chi2.sf(scale * ((counts - expected) ** 2 / expected).sum(), len(counts) - 1)


def power(num_cells, noncentrality):
    """Probability with which a chi-square test at ALPHA sees a bias."""
    return stats.ncx2.sf(stats.chi2.isf(ALPHA, num_cells - 1), num_cells - 1, noncentrality)


def subsets(degree, fanout, num_draws):
    """offsets[num_draws, fanout] of picks without replacement: by destinations of one row each, under several keys."""
    num_dst = max(2, min(20_000, 2_000_000 // degree))
    indptr = torch.arange(num_dst + 1) * degree
    indices, frontier = torch.zeros(num_dst * degree, dtype=torch.int32), torch.arange(num_dst)
    calls = [
        sample_hop(indptr, indices, frontier, NeighborRule(fanout), key).positions.numpy()
        for key in range(-(-num_draws // num_dst))
    ]
    return (np.concatenate(calls) % degree).reshape(-1, fanout)[:num_draws]


def groupings(degree):
    """Ways to bin offsets: blocks, remainders, and one by one where there are few."""
    offsets = np.arange(degree)
    if degree <= NUM_BINS:
        return {"single": offsets}
    bins = {"blocks": offsets * NUM_BINS // degree, "remainders": offsets % NUM_BINS}
    return bins | ({"single": offsets} if degree <= 1_000 else {})


def neighbours_pvalue(offsets, degree, fanout=1):
    """Least p-value of all groupings. Picks of one row that exclude each other vary less: (d - k) / (d - 1)."""
    counts = np.bincount(offsets, minlength=degree)
    found = []
    for bins in groupings(degree).values():
        binned = np.bincount(bins, weights=counts)
        found.append(pvalue(binned, np.bincount(bins) / degree, (degree - 1) / (degree - fanout)))
    return min(found)


# --- single neighbours ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", DEGREES)
def test_neighbours_with_replacement(degree):
    """Four million draws of one destination, and with them words beyond the first million blocks of its stream."""
    indptr, indices = torch.tensor([0, degree]), torch.zeros(degree, dtype=torch.int32)
    hop = sample_hop(indptr, indices, torch.tensor([0]), NeighborRule(NUM_PICKS, replace=True), 12)
    offsets = hop.positions.numpy()
    assert neighbours_pvalue(offsets, degree) > ALPHA
    # One draw says nothing about the next: blocks of consecutive ones.
    few = min(degree, 8)
    blocks = offsets * few // degree
    share = np.bincount(np.arange(degree) * few // degree) / degree
    pairs = np.bincount(blocks[:-1:2] * few + blocks[1::2], minlength=few * few)
    assert pvalue(pairs, np.outer(share, share).ravel()) > ALPHA


@pytest.mark.parametrize("degree", DEGREES)
def test_neighbours_without_replacement(degree):
    fanout = FANOUTS[degree]
    offsets = subsets(degree, fanout, NUM_PICKS // fanout)
    assert neighbours_pvalue(offsets.ravel(), degree, fanout) > ALPHA


# --- subsets ----------------------------------------------------------------------------------------------------------


def all_subsets_pvalue(offsets, degree, fanout):
    """Chi-square over all subsets by name."""
    place = {subset: i for i, subset in enumerate(combinations(range(degree), fanout))}
    names, repeats = np.unique(np.sort(offsets, axis=1), axis=0, return_counts=True)
    counts = np.zeros(len(place))
    counts[[place[tuple(name)] for name in names.tolist()]] = repeats
    return pvalue(counts, np.full(len(place), 1 / len(place)))


def pairs_pvalue(offsets, degree):
    """Chi-square over unordered pairs of bins, for subsets of two; least p-value of blocks and remainders."""
    found = []
    for bins in (groupings(degree)[name] for name in ("blocks", "remainders")):
        low, high = np.sort(bins[offsets], axis=1).T
        size = np.bincount(bins).astype(float)
        ways = np.triu(np.outer(size, size), 1) + np.diag(size * (size - 1) / 2)
        counts = np.bincount(low * NUM_BINS + high, minlength=NUM_BINS**2)
        cells = ways.ravel() > 0
        assert counts[~cells].sum() == 0
        found.append(pvalue(counts[cells], ways.ravel()[cells] / comb(degree, 2)))
    return min(found)


@pytest.mark.parametrize(("degree", "fanout"), [(3, 1), (3, 2), (5, 2), (5, 3), (5, 4), (37, 2)])
def test_every_subset_is_equally_likely(degree, fanout):
    """3 to 666 subsets, 200,000 draws."""
    assert all_subsets_pvalue(subsets(degree, fanout, NUM_SUBSETS), degree, fanout) > ALPHA


@pytest.mark.parametrize("degree", [37, 1_000, 40_000, 1_000_000])
def test_pairs_are_spread_over_pairs_of_bins(degree):
    assert pairs_pvalue(subsets(degree, 2, NUM_SUBSETS // 2), degree) > ALPHA


@pytest.mark.parametrize("degree", [37, 1_000, 40_000, 1_000_000])
@pytest.mark.parametrize("half", ["lower", "even"])
def test_larger_subsets_split_like_drawn_from_an_urn(degree, half):
    """How many of ten picks fall in one half of the row is hypergeometric: a law of the whole subset."""
    members = np.arange(degree) < degree // 2 if half == "lower" else np.arange(degree) % 2 == 0
    split = members[subsets(degree, 10, NUM_SUBSETS // 2)].sum(axis=1)
    probabilities = stats.hypergeom(degree, members.sum(), 10).pmf(np.arange(11))
    counts = np.bincount(split, minlength=11)
    merged = [slice(0, 2), *(slice(i, i + 1) for i in range(2, 9)), slice(9, 11)]  # ends of a handful of cases
    assert pvalue(*(np.array([values[part].sum() for part in merged]) for values in (counts, probabilities))) > ALPHA


# --- the tests can fail -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", DEGREES)
def test_power(degree):
    """Half of the in-edges likelier by a ratio of 1 + b: cells deviate by b / 2, pairs of them by 0, b and -b."""
    cells = min(degree, 1_000)  # the most cells a grouping has
    assert power(cells, NUM_PICKS * (0.03 / 2) ** 2) > 0.999
    pairs = comb(degree, 2) if degree <= 37 else NUM_BINS * (NUM_BINS + 1) // 2
    assert power(pairs, NUM_SUBSETS / 2 * 2 * (0.10 / 2) ** 2) > 0.999


@pytest.mark.parametrize("degree", [1_000, 40_000])
def test_a_remainder_of_16_bits_is_found(degree):
    """pyg-lib reduces 16-bit words by modulo below 65,536 in-edges: a bias of 1.5 % at 1,000, twofold at 40,000."""
    words = np.random.default_rng(0).integers(0, 1 << 16, NUM_PICKS)
    assert neighbours_pvalue(words % degree, degree) < ALPHA


@pytest.mark.parametrize(("degree", "fanout"), [(3, 2), (5, 3), (37, 2)])
def test_a_combination_that_is_never_picked_is_found(degree, fanout):
    """Floyd's algorithm with bounds that are one too small, the fault of torch-sparse's issue 385."""
    random = np.random.default_rng(0)
    picks = np.empty((NUM_SUBSETS, 0), np.int64)
    for last in range(degree - fanout, degree):
        drawn = random.integers(0, last, NUM_SUBSETS)
        repeated = (picks == drawn[:, None]).any(axis=1)
        picks = np.column_stack([picks, np.where(repeated, last, drawn)])
    assert all_subsets_pvalue(picks, degree, fanout) < ALPHA


@pytest.mark.parametrize("degree", [3, 5, 37, 1_000])
def test_a_neighbour_that_is_never_picked_is_found(degree):
    """The first one, as once in DGL (pull request 1928)."""
    assert neighbours_pvalue(np.random.default_rng(0).integers(1, degree, NUM_PICKS), degree) < ALPHA


@pytest.mark.parametrize("degree", [1_000, 40_000, 1_000_000])
def test_picks_that_cluster_are_found(degree):
    """Pairs whose second member is near the first in one of five draws, though each alone is uniform."""
    random = np.random.default_rng(0)
    first, second = random.integers(0, degree, (2, NUM_SUBSETS // 2))
    near = (first + random.integers(1, 1 + degree // 100, len(first))) % degree
    second = np.where(random.random(len(first)) < 0.2, near, second)
    distinct = first != second
    assert pairs_pvalue(np.column_stack([first, second])[distinct], degree) < ALPHA
