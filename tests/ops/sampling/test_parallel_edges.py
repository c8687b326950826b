"""Several edges from one source to one destination: LABOR decides each by a variate of its own."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from scipy import integrate, stats

from headrace.ops import (
    BlockSampler,
    LaborImportanceRule,
    LaborRule,
    LadiesRule,
    draw_ladies,
    has_parallel_edges,
    labor_importance,
    reference,
    sample_hop,
)

from layers import assert_frequencies, assert_mean, assert_variance
from strategies import csc_graphs, thread_counts

pytestmark = pytest.mark.twins

DRAWS = 30_000
# (rule of the hop for one destination, the law of its picks)
SMALL, RICH = [1, 1, 2], [4, 1, 1, 2, 1, 3, 3]


def one_destination(sources, num_nodes=6, dtype=torch.int64):
    """Destination 0 with in-edges from the sources, in this order."""
    return torch.tensor([0] + [len(sources)] * num_nodes), torch.tensor(sources, dtype=dtype)


def picks(sources, rule, num_draws, weights=None, dtype=torch.int64):
    """The edges that each of many hops picks, as tuples."""
    indptr, indices = one_destination(sources, dtype=dtype)
    sampler = BlockSampler(indptr, indices, None, weights)
    frontier = torch.tensor([0])
    return [tuple(sampler.sample(frontier, [rule], [key]).hops[0].edge_ids.tolist()) for key in range(num_draws)]


def assert_law(picked, probabilities):
    """Chi-square of outcomes; fails once in 10,000 without a fault.

    With N draws it finds a law that is off by w in w**2 = sum of (difference ** 2 / probability) with 99 % where N * w
    ** 2 is 50 (2 degrees of freedom), 85 (34) or 130 (120): of 30,000 draws w = 0.04 to 0.066. Picks of 1/2, 0, 1/2 in
    place of thirds have w = 0.7.
    """
    counts = Counter(picked)
    assert set(counts) <= set(probabilities)
    expected = np.array(list(probabilities.values())) * len(picked)
    observed = np.array([counts[outcome] for outcome in probabilities])
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-4


def independent_law(probabilities):
    """The law of edges that are kept each on its own."""
    law = {}
    for size in range(len(probabilities) + 1):
        for kept in combinations(range(len(probabilities)), size):
            law[kept] = np.prod([p if i in kept else 1 - p for i, p in enumerate(probabilities)])
    return {kept: p for kept, p in law.items() if p > 0}


# --- the law ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.law
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_one_of_three_edges_from_two_sources(dtype):
    """A third each, where a variate that both edges from 1 share gives 1/2, 0 and 1/2."""
    assert_law(picks(SMALL, LaborRule(1), DRAWS, dtype=dtype), {(i,): 1 / 3 for i in range(3)})


@pytest.mark.slow
@pytest.mark.law
def test_every_subset_of_a_richer_row_is_equally_likely():
    """35 ways to pick 3 of 7 edges."""
    law = dict.fromkeys(combinations(range(7), 3), 1 / 35)
    assert_law(picks(RICH, LaborRule(3), DRAWS), law)


@pytest.mark.slow
@pytest.mark.law
@pytest.mark.parametrize(
    "rule", [LaborRule(3, exact=False), LaborImportanceRule(3, 1), LaborImportanceRule(3)], ids=str
)
def test_poisson_picks_are_independent(rule):
    """Of one destination all probabilities are equal, 3/7, in LABOR-i as well: 128 subsets."""
    assert_law(picks(RICH, rule, DRAWS), independent_law([3 / 7] * 7))


WEIGHTS = torch.tensor([1.0, 3.0, 0.5, 2.0, 0.0, 1.5, 2.5], dtype=torch.float64)


@pytest.mark.slow
@pytest.mark.law
def test_poisson_picks_by_weight_are_independent():
    law = independent_law((2 * WEIGHTS / WEIGHTS.sum()).clamp(max=1).tolist())
    assert_law(picks(RICH, LaborRule(2, exact=False), DRAWS, WEIGHTS), law)


@pytest.mark.slow
@pytest.mark.law
@pytest.mark.parametrize("rounds", [1, "*"])
def test_importance_picks_by_weight_are_independent(rounds):
    """With the probabilities that the rule solves for; an edge of weight 0 counts among the parallel ones."""
    rule = LaborImportanceRule(2, rounds)
    solution = labor_importance(*one_destination(RICH), torch.tensor([0]), rule, weights=WEIGHTS)
    pi = dict(zip(solution.candidates.tolist(), solution.probabilities.tolist(), strict=True))
    kept = [min(1.0, float(solution.scales) * pi[t]) if w > 0 else 0.0 for t, w in zip(RICH, WEIGHTS, strict=True)]
    assert_law(picks(RICH, rule, DRAWS, WEIGHTS), independent_law(kept))


@pytest.mark.slow
@pytest.mark.law
def test_exact_picks_by_weight():
    """The smallest u / A of independent u: the integral of its density times the others' chances to be larger."""
    row = [1.0, 2.0, 3.0]

    def smallest(i):
        others = [a for k, a in enumerate(row) if k != i]
        value, _ = integrate.quad(
            lambda x: row[i] * np.prod([max(0.0, 1 - a * x) for a in others]), 0, 1 / row[i], points=[1 / 3]
        )
        return value

    law = {(i,): smallest(i) for i in range(3)}
    assert sum(law.values()) == pytest.approx(1)
    assert_law(picks(SMALL, LaborRule(1), DRAWS, torch.tensor(row, dtype=torch.float64)), law)


@pytest.mark.cpu  # hundreds of draws take too long elsewhere
@pytest.mark.parametrize("rule", [LaborRule(3), LaborImportanceRule(3)], ids=str)
def test_destinations_still_share_the_variates_of_sources(rule):
    """The first edges from 1 to two destinations are decided alike, and so are the second ones."""
    row = [1, 2, 1, 3, 4, 5]
    indptr = torch.tensor([0, 6, 12] + [12] * 4)
    for key in range(300):
        hop = sample_hop(indptr, torch.tensor(row + row), torch.tensor([0, 1]), rule, key)
        one, other = (hop.positions[hop.indptr[i] : hop.indptr[i + 1]] for i in (0, 1))
        assert torch.equal(one + 6, other)


# --- estimates --------------------------------------------------------------------------------------------------------


def multigraph():
    """40 destinations of 30 in-edges from 12 sources each, so that most sources are there several times."""
    random = np.random.default_rng(2)
    rows = [np.sort(random.choice(60, 12, replace=False)[random.integers(0, 12, 30)]) for _ in range(40)]
    indptr = torch.from_numpy(np.concatenate([[0], np.minimum(np.arange(1, 61), 40) * 30]))
    return indptr, torch.from_numpy(np.concatenate(rows)), torch.arange(40)


@pytest.mark.cpu  # hundreds of draws take too long elsewhere
@pytest.mark.parametrize("rounds", [1, "*"])
def test_variance_equation_of_labor_importance(rounds):
    """Var of sum P_e / p_e over kept edges is 1 / k - 1 / d for each destination; with shared variates it is larger."""
    (indptr, indices, frontier), rule = multigraph(), LaborImportanceRule(10, rounds)
    solution = labor_importance(indptr, indices, frontier, rule)
    pi = np.zeros(60)
    pi[solution.candidates.numpy()] = solution.probabilities.numpy()
    p = np.minimum(1.0, np.repeat(solution.scales.numpy(), 30) * pi[indices.numpy()])
    kept = np.zeros((3_000, len(p)), bool)
    for draw in range(len(kept)):
        kept[draw, sample_hop(indptr, indices, frontier, rule, draw).positions.numpy()] = True
    assert_frequencies(kept, p)
    estimates = (kept / p / 30).reshape(len(kept), 40, 30).sum(axis=2)
    for s in range(40):
        assert_mean(estimates[:, s], 1.0)
        assert_variance(estimates[:, s], 1 / 10 - 1 / 30)


@pytest.mark.slow
@pytest.mark.parametrize("poisson", [False, True], ids=["LADIES", "PLADIES"])
def test_ladies_keeps_all_parallel_edges_and_is_unbiased(poisson):
    """It draws sources, not edges: sums of P_e M / pi_t over kept edges have the mean of M; each edge counts."""
    (indptr, indices, frontier), rule = multigraph(), LadiesRule(20, poisson=poisson)
    messages = np.random.default_rng(3).normal(1.0, 1.0, 1200)
    sums = np.zeros((3_000, 40))
    for draw in range(len(sums)):
        drawn = draw_ladies(indptr, indices, frontier, rule, draw)
        inverse = np.zeros(60)
        inverse[drawn.candidates.numpy()] = drawn.drawn.numpy() / drawn.probabilities.numpy()
        scale = inverse[indices.numpy()]
        sums[draw] = (scale * messages / 30).reshape(40, 30).sum(axis=1)
        if draw < 20:
            hop = sample_hop(indptr, indices, frontier, rule, draw)
            assert hop.positions.tolist() == np.flatnonzero(scale).tolist()
            rows = np.repeat(np.arange(40), hop.indptr.diff().numpy())
            totals = np.bincount(rows, scale[scale > 0], 40) / np.maximum(hop.indptr.diff().numpy(), 1)
            assert hop.weights is not None
            assert np.allclose(hop.weights.numpy(), scale[scale > 0] / totals[rows], rtol=1e-6)
    for s in range(40):
        assert_mean(sums[:, s], messages.reshape(40, 30)[s].mean())


# --- which graphs have any --------------------------------------------------------------------------------------------


@given(csc_graphs(), thread_counts)
def test_has_parallel_edges_equals_reference(graph, num_threads):
    expected = reference.has_parallel_edges(graph.indptr.numpy(), graph.indices.numpy())
    assert has_parallel_edges(graph.indptr, graph.indices, num_threads=num_threads) == expected


@pytest.mark.parametrize("place", [None, 0, 1, 4_999, 9_999])
@pytest.mark.parametrize("degree", [2, 20, 100])
def test_one_pair_among_many_rows_is_found(place, degree):
    """10,000 rows of distinct sources, unsorted; in one of them the first edge is there again."""
    random = np.random.default_rng(0)
    steps = random.permuted(np.tile(np.arange(degree), (10_000, 1)), axis=1)
    rows = (random.integers(0, 10_000, (10_000, 1)) + 7 * steps) % 10_000
    if place is not None:
        rows[place, -1] = rows[place, 0]
    indptr = torch.arange(0, 10_000 * degree + 1, degree)
    assert has_parallel_edges(indptr, torch.from_numpy(rows.reshape(-1)), num_threads=3) == (place is not None)


@pytest.mark.cpu  # hundreds of draws take too long elsewhere
def test_rows_that_hold_no_source_twice_need_not_be_looked_through():
    """Among rows that do, in both ways of saying so; and the fused sampler, which finds out itself, does the same."""
    indptr = torch.tensor([0, 6, 12, 18] + [18] * 7)
    indices = torch.tensor([1, 1, 2, 3, 1, 2, 9, 8, 7, 6, 5, 4, 1, 4, 4, 9, 8, 8])
    weights = torch.arange(1.0, 19.0)
    for rule in (LaborRule(2), LaborRule(2, exact=False), LaborImportanceRule(2)):
        for key in range(200):
            for one in (None, weights):
                looked = sample_hop(indptr, indices, torch.tensor([1]), rule, key, weights=one)
                told = sample_hop(indptr, indices, torch.tensor([1]), rule, key, weights=one, parallel_edges=False)
                assert torch.equal(looked.positions, told.positions)
                fused = BlockSampler(indptr, indices, None, one).sample(torch.tensor([0, 1, 2]), [rule], [key])
                hop = sample_hop(indptr, indices, torch.tensor([0, 1, 2]), rule, key, weights=one)
                assert torch.equal(fused.hops[0].edge_ids, hop.positions)


@pytest.mark.cpu  # a sampler on a GPU has a copy of what the caller changes
@pytest.mark.parametrize("rule", [LaborRule(2), LaborRule(2, exact=False)], ids=str)
def test_edges_of_a_row_that_was_changed_are_of_the_row(rule):
    """Nobody may change a graph that a sampler has; where indptr is, no memory outside of a row is written."""
    indptr, indices = torch.tensor([0, 60, 61]), torch.ones(61, dtype=torch.int64)
    sampler = BlockSampler(indptr, indices)
    sampler.sample(torch.tensor([0]), [rule], [0])
    indptr[1] = 3
    for key in range(100):
        hop = sampler.sample(torch.tensor([0]), [rule], [key]).hops[0]
        assert all(edge < 3 for edge in hop.edge_ids.tolist())


# --- graphs without any keep their bits -------------------------------------------------------------------------------

# Digests of the samples below, without and with weights, from before parallel edges had variates of their own.
BITS = {
    LaborRule(5): ("cd05a104c707593c", "daa0d801ca680566"),
    LaborRule(40): ("2f8d33d35af71d87", "237dcaac43069804"),
    LaborRule(5, exact=False): ("b2e4a6ece272db72", "c293b6183c20a8ab"),
    LaborImportanceRule(5, 1): ("50a1497f721254ef", "fe8a36d471a1d022"),
    LaborImportanceRule(5): ("22c3115ace2fda4c", "402e7e6b5d541d83"),
    LadiesRule(100): ("cc984cdca9e79c45", "0abf4d49e31cc549"),
    LadiesRule(100, poisson=True): ("68dbea68c2661cc6", "de10e15a40f11900"),
}


def simple_graph():
    """300 nodes; rows of 0 to 299 distinct sources, every second one unsorted; float64 weights."""
    random = np.random.default_rng(6)
    rows = [random.choice(300, int(300 * random.random() ** 3), replace=False) for _ in range(300)]
    rows = [np.sort(row) if v % 2 else row for v, row in enumerate(rows)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return torch.from_numpy(indptr), torch.from_numpy(np.concatenate(rows)), torch.from_numpy(random.random(indptr[-1]))


@pytest.mark.slow
@pytest.mark.combinations(8)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("rule", BITS, ids=str)
def test_simple_graphs_keep_their_bits(rule, dtype):
    indptr, indices, weights = simple_graph()
    assert not has_parallel_edges(indptr, indices)
    for values, expected in zip((None, weights), BITS[rule], strict=True):
        sampler = BlockSampler(indptr, indices.to(dtype), None, values)
        sampled = sampler.sample(torch.arange(0, 300, 7), [rule, rule], [3, 4])
        digest = hashlib.blake2b(sampled.n_id.numpy().tobytes(), digest_size=8)
        for hop in sampled.hops:
            for tensor in (hop.indptr, hop.indices.long(), hop.edge_ids, hop.weights):
                digest.update(b"-" if tensor is None else tensor.numpy().tobytes())
        assert digest.hexdigest() == expected
