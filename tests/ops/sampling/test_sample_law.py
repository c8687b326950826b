"""Each rule picks with the probabilities it claims: fixed keys, exact laws, chi-square or five standard deviations."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from headrace.ops import LaborRule, NeighborRule, reference, sample_hop, stream_key

pytestmark = [pytest.mark.slow, pytest.mark.law]

DRAWS = 20_000


def draws(rule, degree, *, weights=None, shared=False, num_draws=DRAWS):
    """Positions picked from a row of `degree` distinct sources, once per independent key or destination.

    With `shared` the draws differ by key (LABOR's variates belong to sources); else by destination, in one call.
    """
    if not shared:
        indptr = torch.arange(num_draws + 1) * degree
        indices = torch.arange(degree).repeat(num_draws)
        tiled = None if weights is None else torch.tensor(weights).repeat(num_draws)
        hop = sample_hop(indptr, indices, torch.arange(num_draws), rule, 77, weights=tiled)
        return [part.numpy() % degree for part in hop.positions.split(hop.indptr.diff().tolist())]
    indptr, indices = torch.tensor([0] + [degree] * degree), torch.arange(degree)
    tensor = None if weights is None else torch.tensor(weights)
    frontier = torch.tensor([0])
    return [
        sample_hop(indptr, indices, frontier, rule, stream_key(5, epoch, 0, 0, 1), weights=tensor).positions.numpy()
        for epoch in range(num_draws)
    ]


@pytest.mark.parametrize(
    ("rule", "shared"), [(NeighborRule(3), False), (LaborRule(3), True)], ids=["neighbor", "labor"]
)
def test_every_subset_is_equally_likely(rule, shared):
    """All 20 3-subsets of 6, 20,000 draws: 1,000 each, so a subset that is 16 % off is 5 sigma away."""
    subsets = {subset: i for i, subset in enumerate(combinations(range(6), 3))}
    counts = np.zeros(len(subsets))
    for picks in draws(rule, 6, shared=shared):
        counts[subsets[tuple(sorted(picks))]] += 1
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("fanout", [5, 40], ids=["scan", "hash table"])
def test_every_neighbour_is_equally_likely(fanout):
    """Inclusion counts of 50 neighbours are within 5 sigma of draws * fanout / 50 each, and within 1.5 on average."""
    counts = np.bincount(np.concatenate(draws(NeighborRule(fanout), 50)), minlength=50)
    probability = fanout / 50
    z = (counts - DRAWS * probability) / np.sqrt(DRAWS * probability * (1 - probability))
    assert np.abs(z).max() < 5
    assert (z**2).mean() < 1.5**2


def test_draws_with_replacement_are_independent_and_uniform():
    """All 7 ** 2 ordered pairs of two draws of 7, about 408 each."""
    counts = np.zeros((7, 7))
    for first, second in draws(NeighborRule(2, replace=True), 7):
        counts[first, second] += 1
    assert stats.chisquare(counts.ravel()).pvalue > 1e-4


def test_poisson_counts_have_mean_and_variance_of_the_law():
    """Picks of 40 with probability 1/8: mean 5, variance 40 * 7 / 64; both to five standard deviations."""
    counts = np.array([len(picks) for picks in draws(LaborRule(5, exact=False), 40, shared=True)])
    variance = 40 * 7 / 64
    assert abs(counts.mean() - 5) < 5 * np.sqrt(variance / DRAWS)
    assert abs(counts.var() - variance) < 5 * variance * np.sqrt(2.2 / DRAWS)


def test_labor_expected_number_of_nodes():
    """A node is reached with probability max over destinations of min(1, k / degree): algorithms in closed form.

    One source shared by destinations of in-degree 4 and 8 under Poisson picks with k = 2 is reached with probability
    1/2, where independent picks would give 1 - (1/2) * (3/4) = 0.625: 5 sigma of 20,000 draws is 0.018.
    """
    indptr = torch.tensor([0, 4, 12] + [12] * 9)
    indices = torch.tensor([10, 0, 1, 2, 10, 3, 4, 5, 6, 7, 8, 9])
    reached = sum(
        10 in sample_hop(indptr, indices, torch.tensor([0, 1]), LaborRule(2, exact=False), key).neighbors.tolist()
        for key in range(DRAWS)
    )
    assert abs(reached / DRAWS - 0.5) < 0.018


WEIGHTS = [1.0, 0.0, 2.0, 0.5, 4.0]


def successive_draw_law(weights, fanout):
    """Probability of each subset when edges are drawn one after the other by weight, without replacement."""
    law: dict[tuple[int, ...], float] = {}
    for order in permutations([i for i, weight in enumerate(weights) if weight > 0], fanout):
        probability, left = 1.0, sum(weights)
        for i in order:
            probability *= weights[i] / left
            left -= weights[i]
        subset = tuple(sorted(order))
        law[subset] = law.get(subset, 0.0) + probability
    return law


@pytest.mark.parametrize("fanout", [1, 2, 3])
@pytest.mark.parametrize("weights", [WEIGHTS, [1e12, 0.0, 2.0, 0.5, 4.0, 1.0]], ids=["drawn", "raced"])
def test_weighted_picks_follow_successive_draws(weights, fanout):
    """Chi-square over all subsets of the edges of positive weight.

    In the second row draws find nothing but the first edge, so that the race picks all others.
    """
    law = {picks: share for picks, share in successive_draw_law(weights, fanout).items() if share * DRAWS > 1e-3}
    counts = dict.fromkeys(law, 0)
    for picks in draws(NeighborRule(fanout), len(weights), weights=weights):
        counts[tuple(sorted(picks))] += 1
    expected = np.array(list(law.values())) * DRAWS
    if len(law) == 1:
        assert counts == {(0,): DRAWS}
    else:
        assert stats.chisquare(list(counts.values()), expected).pvalue > 1e-4


def test_weighted_picks_of_nearly_a_whole_row_follow_successive_draws():
    """15 of 16: edge i is left out iff it loses the race, with probability int w e^(-w t) prod (1 - e^(-w' t)) dt."""
    weights = np.linspace(0.5, 3.0, 16)

    def loses_at(time, i):
        others = 1 - np.exp(-np.delete(weights, i) * time)
        return weights[i] * np.exp(-weights[i] * time) * others.prod()

    law = np.array([integrate.quad(loses_at, 0, np.inf, args=(i,))[0] for i in range(16)])
    counts = np.zeros(16)
    for picks in draws(NeighborRule(15), 16, weights=weights.tolist()):
        counts[list(set(range(16)) - set(picks.tolist()))] += 1
    assert stats.chisquare(counts, law / law.sum() * DRAWS).pvalue > 1e-4


def test_weighted_draws_with_replacement_follow_the_weights():
    picks = np.concatenate(draws(NeighborRule(4, replace=True), 5, weights=WEIGHTS))
    counts = np.bincount(picks, minlength=5)
    positive = np.array(WEIGHTS) > 0
    assert counts[1] == 0
    expected = np.array(WEIGHTS)[positive] / sum(WEIGHTS) * len(picks)
    assert stats.chisquare(counts[positive], expected).pvalue > 1e-4


def test_weighted_labor_poisson_inclusion():
    """Edge t is kept with probability min(1, k A_t / sum A): here 2 / 7.5 times the weight, the last one surely."""
    counts = np.bincount(np.concatenate(draws(LaborRule(2, exact=False), 5, weights=WEIGHTS, shared=True)), minlength=5)
    probability = np.minimum(1, 2 * np.array(WEIGHTS) / 7.5)
    deviation = np.sqrt(DRAWS * probability * (1 - probability))
    assert (np.abs(counts - DRAWS * probability) <= 5 * deviation).all()
    assert counts[1] == 0
    assert counts[4] == DRAWS


def test_weighted_labor_exact_picks_the_smallest_quotients():
    """P(edge 0 wins) for r_0 / 1 < r_1 / 2 with uniform variates is 1/4; 5 sigma of 20,000 draws is 0.0153."""
    wins = sum(picks[0] == 0 for picks in draws(LaborRule(1), 2, weights=[1.0, 2.0], shared=True))
    assert abs(wins / DRAWS - 0.25) < 0.0153


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "poisson"])
def test_importance_weights_estimate_the_weighted_mean(exact):
    """The mean of weight * message over the picks estimates the A-weighted mean of the messages.

    5,000 draws of 8 of 30; a plain mean of the picked messages is off by more than 0.1. The Hajek estimate has a ratio
    bias of order 1 / 8 of the variance; 0.03 covers it and five standard errors.
    """
    random = np.random.default_rng(0)
    weights = random.random(30) + 0.1
    messages = weights + random.random(30)
    expected = (weights * messages).sum() / weights.sum()
    indptr, indices = torch.tensor([0] + [30] * 30), torch.arange(30)
    estimates = []
    for key in range(DRAWS // 4):
        hop = sample_hop(
            indptr, indices, torch.tensor([0]), LaborRule(8, exact), key, weights=torch.from_numpy(weights)
        )
        assert hop.weights is not None
        if hop.weights.numel() == 0:
            continue  # Poisson picks may be none, about once in 3,000 draws
        assert abs(hop.weights.mean().item() - 1) < 1e-6
        estimates.append((hop.weights.double().numpy() * messages[hop.positions.numpy()]).mean())
    assert abs(np.mean(estimates) - expected) < 0.03


def test_constant_messages_are_estimated_exactly():
    hop = sample_hop(
        torch.tensor([0] + [20] * 20), torch.arange(20), torch.tensor([0]), LaborRule(4), 3, weights=torch.rand(20)
    )
    assert hop.weights is not None
    assert hop.weights.sum().item() == pytest.approx(4, abs=1e-6)


def test_the_logarithm_is_the_logarithm():
    """The fixed sequence of operations agrees with libm to 4 units in the last place, ends of the interval included."""
    random = np.random.default_rng(0)
    variates = [0, 2**64 - 1, 2**63, *(int(v) for v in random.integers(0, 2**64, 20_000, dtype=np.uint64))]
    for variate in variates:
        u = reference.unit_interval(variate)
        assert 0 < u < 1
        assert reference.negative_log(u) == pytest.approx(-np.log(u), rel=4 * 2.0**-52)
