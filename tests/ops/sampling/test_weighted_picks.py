"""Picks by weight are those of the reference: with tables (`BlockSampler`) and without, with every instruction set."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch

from headrace.ops import BlockSampler, LaborRule, NeighborRule, reference, sample_hop

pytestmark = pytest.mark.twins

KEY = 12345
DEGREES = [*range(18), 20, 24, 31, 32, 33, 40, 63, 64, 65, 100, 130, 260, 700]


def one_takes_nearly_all(indptr, weights):
    """One edge of each row, on which most draws fall: these find few others, and the rest race."""
    weights = weights.copy()
    weights[indptr[:-1][np.diff(indptr) > 0]] *= 1e6
    return weights


WEIGHTS = {
    "equal": lambda indptr, weights: np.ones_like(weights),
    "skewed": lambda indptr, weights: weights**20 + 1e-9,
    "many zeros": lambda indptr, weights: np.where(weights < 0.5, 0, weights),
    "one takes nearly all": one_takes_nearly_all,
    "large": lambda indptr, weights: weights * 1e280 + 1e270,
    "small": lambda indptr, weights: weights * 1e-295 + 1e-300,
    "single": lambda indptr, weights: (weights + 0.01).astype(np.float32),
    "single and not normal": lambda indptr, weights: (weights * 1e-41 + 1e-43).astype(np.float32),
}


@pytest.fixture(scope="module")
def graph():
    """Rows that begin anywhere between two sums, one of them without weight in "many zeros" and the like."""
    degrees = np.random.default_rng(1).permutation(DEGREES * 2)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    return indptr, np.random.default_rng(2).integers(0, len(degrees), indptr[-1])


def assert_picks_are_those_of_the_reference(indptr, indices, weights, rule, key=KEY):
    seeds = np.arange(len(indptr) - 1)
    right = reference.sample_hop(indptr, indices, seeds, rule, key, weights=weights)
    alone = sample_hop(indptr, indices, torch.from_numpy(seeds), rule, key, weights=weights)
    np.testing.assert_array_equal(alone.indptr, right.indptr)
    np.testing.assert_array_equal(alone.positions, right.positions)
    sampler = BlockSampler(indptr, torch.from_numpy(indices).int(), weights=weights)
    fused = sampler.sample(torch.from_numpy(seeds), [rule], [key]).hops[0]
    np.testing.assert_array_equal(fused.indptr, right.indptr)
    np.testing.assert_array_equal(fused.edge_ids, right.positions)


@pytest.mark.slow
@pytest.mark.combinations(77)
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("fanout", [1, 2, 10, 15, 16, 17, 33, 100])
def test_picks_are_those_of_the_reference(graph, kind, fanout, replace):
    indptr, indices = graph
    weights = WEIGHTS[kind](indptr, np.random.default_rng(3).random(len(indices)))
    assert_picks_are_those_of_the_reference(indptr, indices, weights, NeighborRule(fanout, replace=replace))


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("kind", ["skewed", "one takes nearly all"])
def test_every_instruction_set_makes_the_same_variates(graph, kind, replace):
    indptr, indices = graph
    weights = WEIGHTS[kind](indptr, np.random.default_rng(4).random(len(indices)))
    assert_picks_are_those_of_the_reference(indptr, indices, weights, NeighborRule(13, replace=replace))


def test_a_row_without_weight_gives_nothing(graph):
    indptr, indices = graph
    weights = np.random.default_rng(5).random(len(indices))
    for row in range(0, len(indptr) - 1, 3):
        weights[indptr[row] : indptr[row + 1]] = 0
    for rule in (NeighborRule(3), NeighborRule(10), NeighborRule(10, replace=True)):
        assert_picks_are_those_of_the_reference(indptr, indices, weights, rule)


@pytest.mark.slow
@pytest.mark.parametrize("skew", [0, 1, 30], ids=["equal", "uniform", "skewed"])
@pytest.mark.parametrize(("start", "dtype"), [(0, "float64"), (1, "float32"), (15, "float64"), (16, "float32")])
def test_draws_from_long_rows(skew, start, dtype):
    """From a good guess or a bad one, the edge is the one that bisection finds."""
    weights = (np.random.default_rng(skew).random(20_000 + start) ** skew).astype(dtype)
    indptr, indices = np.array([0, start, len(weights)]), np.zeros(len(weights), np.int32)
    rule = NeighborRule(5_000, replace=True)
    sampler = BlockSampler(indptr, indices, weights=weights)
    found = sampler.sample(torch.tensor([1]), [rule], [3]).hops[0].edge_ids
    alone = sample_hop(indptr, indices, torch.tensor([1]), rule, 3, weights=weights)
    sums = np.cumsum(weights[start:].astype(np.float64))  # NumPy adds along a row in its order
    units = [reference.unit_interval(variate) for variate in islice(reference.stream_variates(3, 1), 5_000)]
    right = start + np.searchsorted(sums, np.array(units) * sums[-1], side="right")
    np.testing.assert_array_equal(found, right)
    np.testing.assert_array_equal(alone.positions, right)


@pytest.mark.slow
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, 1e308, 5e-324])
def test_weights_that_were_changed_give_edges_of_the_row_or_none(value, replace):
    """The sums that the first batch made no longer fit them."""
    degrees = np.repeat([1, 10, 11, 14, 15, 16, 17, 40, 300], 20)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    weights = np.random.default_rng(6).random(indptr[-1])
    sampler = BlockSampler(indptr, np.zeros(len(weights), np.int32), weights=weights)
    seeds, rule = torch.arange(len(degrees)), NeighborRule(10, replace=replace)
    sampler.sample(seeds, [rule], [KEY])
    for changed in (slice(None, None, 2), slice(None)):
        weights[changed] = value
        hop = sampler.sample(seeds, [rule], [KEY]).hops[0]
        counts = hop.indptr.diff().numpy()
        assert (counts <= (10 if replace else np.minimum(degrees, 10))).all()
        rows = np.repeat(np.arange(len(degrees)), counts)
        edges = hop.edge_ids.numpy()
        assert (indptr[rows] <= edges).all()
        assert (edges < indptr[rows + 1]).all()
        assert replace or len(np.unique(edges)) == len(edges)


def test_tables_are_two_bytes_an_edge():
    num_edges = 20_000
    indptr = np.arange(0, num_edges + 1, 20)
    indices = np.zeros(num_edges, np.int32)
    sampler = BlockSampler(indptr, indices, weights=np.ones(num_edges))
    seeds = torch.arange(10)
    sampler.sample(seeds, [LaborRule(5)], [0])
    before = sampler.scratch_bytes
    sampler.sample(seeds, [NeighborRule(5)], [0])
    assert sampler.scratch_bytes - before == 8 * (num_edges // 4 + 1)


def test_the_lower_half_of_a_variate_counts():
    """Each node has two in-edges, and the border between them lies where only the lower half tells the sides apart."""
    nodes = range(40)
    right, weights = [], []
    for node in nodes:
        variate = next(reference.stream_variates(KEY, node))
        upper = variate >> 32
        u, without = (reference.unit_interval(one) for one in (variate, upper << 32 | upper))
        border = (u + without) / 2
        right.append(2 * node + (u > border))
        weights += [border, 1 - border]
    assert {position % 2 for position in right} == {0, 1}
    indptr = np.arange(0, 2 * len(nodes) + 1, 2)
    hop = sample_hop(
        indptr, np.zeros(indptr[-1], np.int64), np.array(nodes), NeighborRule(1), KEY, weights=np.array(weights)
    )
    assert hop.positions.tolist() == right
