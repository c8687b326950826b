"""Sampling designs: inclusion and joint inclusion probabilities, and the estimates that stand on them.

Expected values are closed forms: products and minima of probabilities, enumeration of successive draws, and integrals
of polynomials by quadrature that is exact for them. Tolerances are five standard deviations of 200,000 draws: some
0.5 % of a probability of 1/2. Fixed keys.
"""

from __future__ import annotations

from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
import torch

from headrace.ops import LaborRule, NeighborRule, sample_hop

pytestmark = [pytest.mark.slow, pytest.mark.law]

DRAWS_PER_CALL, CALLS = 20_000, 10
DRAWS = DRAWS_PER_CALL * CALLS

WEIGHTS = np.array([0.5, 1.0, 1.0, 2.0, 3.0, 0.25, 4.0, 0.75])  # of fan-out 3 the heaviest has probability 0.96
FANOUT = 3
RACED = np.array([0.5, 1.0, 2.0**40, 2.0, 3.0, 0.25, 4.0, 0.75])  # draws find one edge only: a race picks the others
HEAVY = np.array([0.5, 1.0, 9.0, 1.0, 0.0, 2.0])  # one edge sure, one impossible


def draws(rows, rule, weights=None):
    """kept[DRAWS, num_edges] for a layer given by the sources of each destination.

    The layer is repeated with other sources and destinations, whose random numbers are independent: one call is many
    draws. Returns the importance weights as well, 0 where an edge is not kept; None where the rule gives none.
    """
    degrees = np.array([len(row) for row in rows])
    edges = np.concatenate(rows)
    num_local, num_edges = edges.max() + 1, len(edges)
    copies = np.arange(DRAWS_PER_CALL)
    indices = (edges[None, :] + num_local * copies[:, None]).ravel()
    starts = np.concatenate([[0], np.cumsum(np.tile(degrees, DRAWS_PER_CALL))])
    num_dst = len(starts) - 1
    padding = np.full(max(0, num_local * DRAWS_PER_CALL - num_dst), starts[-1])
    tiled = None if weights is None else np.tile(np.asarray(weights), DRAWS_PER_CALL)
    kept = np.zeros((CALLS, DRAWS_PER_CALL * num_edges), bool)
    importance = np.zeros((CALLS, DRAWS_PER_CALL * num_edges), np.float32)
    for key in range(CALLS):
        hop = sample_hop(
            np.concatenate([starts, padding]), indices, torch.arange(num_dst), rule, 1_000 + key, weights=tiled
        )
        kept[key, hop.positions.numpy()] = True
        if hop.weights is not None:
            importance[key, hop.positions.numpy()] = hop.weights.numpy()
    return kept.reshape(DRAWS, num_edges), importance.reshape(DRAWS, num_edges) if hop.weights is not None else None


# --- closed forms -----------------------------------------------------------------------------------------------------


def poisson_design(probabilities):
    """pi_ij of independent edges; the diagonal holds pi_i."""
    joint = np.outer(probabilities, probabilities)
    np.fill_diagonal(joint, probabilities)
    return joint


def simple_design(degree, fanout):
    """pi_ij of subsets that are all equally likely."""
    joint = np.full((degree, degree), fanout * (fanout - 1) / (degree * (degree - 1)))
    np.fill_diagonal(joint, fanout / degree)
    return joint


def successive_design(weights, fanout):
    """pi_ij of successive draws by weight without replacement, by enumeration."""
    joint = np.zeros((len(weights), len(weights)))
    for order in permutations(range(len(weights)), fanout):
        probability, left = 1.0, weights.sum()
        for i in order:
            probability *= weights[i] / left
            left -= weights[i]
        joint[np.ix_(order, order)] += probability
    return joint


def sequential_poisson_design(weights, fanout):
    """pi_ij of the `fanout` smallest r_t / A_t.

    r_t / A_t is uniform on (0, 1 / A_t), so that its distribution function is F_t(y) = min(1, A_t y). Edge i is picked
    iff fewer than `fanout` others lie below it; i and j both iff fewer than fanout - 1 others lie below the larger one.
    Between the points 1 / A_t all integrands are polynomials, for which eight Gauss-Legendre nodes are exact.
    """
    count = len(weights)
    nodes, node_weights = np.polynomial.legendre.leggauss(8)
    joint = np.zeros((count, count))
    for low, high in pairwise([0.0, *np.unique(1 / weights)]):
        for y, width in zip((low + high) / 2 + nodes * (high - low) / 2, node_weights * (high - low) / 2, strict=True):
            below = np.minimum(1, weights * y)
            density = weights * (y < 1 / weights)
            for i in range(count):
                joint[i, i] += width * density[i] * fewer_than(fanout, np.delete(below, i))
            for i, j in combinations(range(count), 2):
                others = fewer_than(fanout - 1, np.delete(below, [i, j]))
                joint[i, j] += width * (density[i] * below[j] + density[j] * below[i]) * others
    return np.triu(joint) + np.triu(joint, 1).T


def fewer_than(limit, probabilities):
    """Probability that fewer than `limit` of independent events happen."""
    law = np.array([1.0])
    for p in probabilities:
        law = np.convolve(law, [1 - p, p])
    return law[:limit].sum()


def wanted(weights, fanout):
    return np.minimum(1, fanout * weights / weights.sum())


DESIGNS = {
    "uniform": (NeighborRule(FANOUT), None, simple_design(8, FANOUT)),
    "weighted": (NeighborRule(FANOUT), WEIGHTS, successive_design(WEIGHTS, FANOUT)),
    "weighted, raced": (NeighborRule(FANOUT), RACED, successive_design(RACED, FANOUT)),
    "LABOR-0 exact": (LaborRule(FANOUT), None, simple_design(8, FANOUT)),
    "LABOR-0 Poisson": (LaborRule(FANOUT, exact=False), None, poisson_design(np.full(8, FANOUT / 8))),
    "LABOR-0 weighted exact": (LaborRule(FANOUT), WEIGHTS, sequential_poisson_design(WEIGHTS, FANOUT)),
    "LABOR-0 weighted Poisson": (
        LaborRule(FANOUT, exact=False),
        WEIGHTS,
        poisson_design(wanted(WEIGHTS, FANOUT)),
    ),
}
FIXED_SIZE = ["uniform", "weighted", "weighted, raced", "LABOR-0 exact", "LABOR-0 weighted exact"]
designs = pytest.mark.parametrize("name", DESIGNS)


@pytest.mark.parametrize("name", FIXED_SIZE)
def test_the_closed_forms_agree_with_each_other(name):
    """Of designs of a fixed size k: pi sums to k, and pi_ij over j to k pi_i."""
    joint = DESIGNS[name][2]
    assert np.trace(joint) == pytest.approx(FANOUT, abs=1e-12)
    assert joint.sum(axis=1) == pytest.approx(FANOUT * joint.diagonal(), abs=1e-12)


# --- inclusion --------------------------------------------------------------------------------------------------------


def assert_inclusion(kept, joint):
    """Frequencies of edges and pairs to five standard deviations; what is sure or impossible is that."""
    frequency = kept.T.astype(np.float64) @ kept / len(kept)
    deviation = np.sqrt(np.maximum(joint * (1 - joint), 0) / len(kept))
    assert (np.abs(frequency - joint) <= 5 * deviation + 1e-12).all()


@designs
def test_inclusion_and_joint_inclusion(name):
    rule, weights, joint = DESIGNS[name]
    kept, _ = draws([np.arange(8)], rule, weights)
    assert_inclusion(kept, joint)


def test_the_designs_by_weight_differ():
    """Successive draws, u / p and independent picks are three laws, further apart than what the tests let pass."""
    successive, quotient, independent = (
        DESIGNS[name][2] for name in ("weighted", "LABOR-0 weighted exact", "LABOR-0 weighted Poisson")
    )
    for one, other in combinations([successive, quotient, independent], 2):
        assert np.abs(one - other).max() > 5 * 0.5 / np.sqrt(DRAWS) * 2
    assert np.abs(quotient - independent).diagonal().max() < np.abs(successive - independent).diagonal().max()


def test_sure_and_impossible_edges():
    kept, _ = draws([np.arange(6)], LaborRule(2, exact=False), HEAVY)
    assert_inclusion(kept, poisson_design(wanted(HEAVY, 2)))
    assert kept[:, 2].all()
    assert not kept[:, 4].any()


@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
def test_destinations_share_the_variate_of_a_source(weighted):
    """Joint inclusion is the smaller probability for edges of one source, the product for edges of two.

    Destinations of 4 and 8 in-edges, of which 3 sources are common.
    """
    rows = [np.array([0, 1, 2, 3]), np.array([0, 1, 2, 4, 5, 6, 7, 8])]
    weights = np.array([1.0, 2, 3, 1, *WEIGHTS]) if weighted else None
    ones = np.ones(12) if weights is None else weights
    pi = np.concatenate([wanted(ones[:4], 2), wanted(ones[4:], 2)])
    sources = np.concatenate(rows)
    joint = np.where(sources[:, None] == sources[None, :], np.minimum.outer(pi, pi), np.outer(pi, pi))
    kept, _ = draws(rows, LaborRule(2, exact=False), weights)
    assert_inclusion(kept, joint)


def test_independent_destinations_share_nothing():
    """NeighborRule draws by destination: pairs across destinations are products, common source or not."""
    rows = [np.arange(4), np.arange(8)]
    joint = np.zeros((12, 12))
    joint[:4, :4], joint[4:, 4:] = simple_design(4, 2), simple_design(8, 2)
    joint[:4, 4:], joint[4:, :4] = 1 / 2 * 1 / 4, 1 / 4 * 1 / 2
    kept, _ = draws(rows, NeighborRule(2))
    assert_inclusion(kept, joint)


# --- estimates --------------------------------------------------------------------------------------------------------

MESSAGES = np.array([3.0, -1.0, 0.5, 2.0, 1.0, 4.0, -2.0, 0.0])


def assert_moments(estimates, mean, variance):
    """Mean and variance to five standard errors; that of a variance is taken from the fourth moment of the sample."""
    count, centred, variance = len(estimates), estimates - estimates.mean(), max(0.0, variance)
    assert abs(estimates.mean() - mean) <= 5 * np.sqrt(variance / count) + 1e-12
    error = np.sqrt(max(0.0, (centred**4).mean() - (centred**2).mean() ** 2) / count)
    assert abs((centred**2).mean() - variance) <= 5 * error + 1e-12


@designs
@pytest.mark.parametrize("messages", [MESSAGES, np.ones(8)], ids=["messages", "ones"])
def test_horvitz_thompson(name, messages):
    """Unbiased for the weighted mean, with variance sum (pi_ij - pi_i pi_j) y_i y_j for y = share * message / pi."""
    rule, weights, joint = DESIGNS[name]
    shares = np.full(8, 1 / 8) if weights is None else weights / weights.sum()
    pi = joint.diagonal()
    y = shares * messages / pi
    kept, _ = draws([np.arange(8)], rule, weights)
    assert_moments(kept @ y, shares @ messages, y @ (joint - np.outer(pi, pi)) @ y)


def test_the_variances_are_those_of_the_formulas():
    """Poisson: sum M^2 (1 / pi - 1) / d^2, for M = 1 it is 1 / k - 1 / d. Exactly k: S^2 / k (1 - k / d)."""

    def variance(joint, messages):
        y = messages / 8 / joint.diagonal()
        return y @ (joint - np.outer(joint.diagonal(), joint.diagonal())) @ y

    poisson, exact = poisson_design(np.full(8, FANOUT / 8)), simple_design(8, FANOUT)
    assert variance(poisson, MESSAGES) == pytest.approx((MESSAGES**2).sum() / 64 * (8 / FANOUT - 1))
    assert variance(poisson, np.ones(8)) == pytest.approx(1 / FANOUT - 1 / 8)
    assert variance(exact, MESSAGES) == pytest.approx(MESSAGES.var(ddof=1) / FANOUT * (1 - FANOUT / 8))
    assert variance(exact, np.ones(8)) == pytest.approx(0, abs=1e-12)


LONG = 64
LONG_WEIGHTS = np.random.default_rng(0).uniform(0.5, 2.0, LONG)
LONG_MESSAGES = np.random.default_rng(1).normal(2.0, 1.0, LONG)


@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
def test_hajek(weighted):
    """Poisson picks, 24 of 64: the weights that a hop returns (none: all are 1) make a plain mean a Hajek estimate.

    Its variance is sum share^2 (M - mean)^2 (1 / pi - 1) and its bias 0 to first order; what remains is of order 1 / 24
    of the variance, for which 10 % of it are allowed beside the five standard errors. HT would have a variance several
    times as large here: the messages have a mean.
    """
    weights = LONG_WEIGHTS if weighted else None
    shares = LONG_WEIGHTS / LONG_WEIGHTS.sum() if weighted else np.full(LONG, 1 / LONG)
    pi = np.minimum(1, 24 * shares)
    kept, importance = draws([np.arange(LONG)], LaborRule(24, exact=False), weights)
    assert (importance is None) == (not weighted)
    values = kept if importance is None else importance
    estimates = values @ LONG_MESSAGES / kept.sum(axis=1)
    mean = shares @ LONG_MESSAGES
    variance = (shares**2 * (LONG_MESSAGES - mean) ** 2 * (1 / pi - 1)).sum()
    assert abs(estimates.mean() - mean) <= 5 * np.sqrt(variance / DRAWS) + 0.1 * variance
    assert abs(estimates.var() / variance - 1) <= 0.1 + 5 * np.sqrt(2 / DRAWS)
    horvitz_thompson = (shares**2 * LONG_MESSAGES**2 * (1 / pi - 1)).sum()
    assert horvitz_thompson > 3 * variance
