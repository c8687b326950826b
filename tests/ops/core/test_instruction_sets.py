"""Every hop rule picks the same edges with every instruction set that this machine has."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headrace.ops import BlockSampler, LaborRule, NeighborRule, _native, sample_hop

from instruction_sets import SETS

pytestmark = pytest.mark.kernel

BEST = SETS[-1]
DEGREES = [
    0,
    1,
    2,
    3,
    9,
    10,
    11,
    12,
    14,
    15,
    16,
    17,
    20,
    31,
    32,
    33,
    63,
    64,
    65,
    100,
    128,
    255,
    256,
    257,
    1000,
    1_000_000,
]


@pytest.fixture(autouse=True)
def _best_again():
    yield
    assert _native.use_instruction_set(BEST)


def with_each(sample):
    results = []
    for one in SETS:
        assert _native.use_instruction_set(one)
        results.append(sample())
    return results


def assert_all_same(results):
    for other in results[1:]:
        for one, another in zip(results[0], other, strict=True):
            assert torch.equal(one, another)


@pytest.fixture(scope="module")
def graph():
    """Rows of all the degrees at which pickers change their ways; sources repeat."""
    random = np.random.default_rng(0)
    indptr = torch.from_numpy(np.cumsum([0, *DEGREES]))
    num_edges = int(indptr[-1])
    weights = random.random(num_edges).astype(np.float32) ** 3
    weights[random.random(num_edges) < 0.1] = 0
    return indptr, torch.from_numpy(random.integers(0, len(DEGREES), num_edges)), torch.from_numpy(weights)


@pytest.mark.parametrize("fanout", [1, 3, 10, 15, 16, 17, 25, 100])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_neighbor_picks(graph, fanout, replace, weighted, index):
    indptr, indices, weights = graph
    sampler = BlockSampler(indptr, indices.to(index), weights=weights if weighted else None)
    rule, seeds = NeighborRule(fanout, replace=replace), torch.arange(len(DEGREES))

    def sample():
        hops = [sampler.sample(seeds, [rule], [key]).hops[0] for key in range(30)]
        return [hop.edge_ids for hop in hops] + [hop.indptr for hop in hops]

    assert_all_same(with_each(sample))


@pytest.mark.combinations(1)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_labor_picks(graph, exact, weighted):
    indptr, indices, weights = graph
    rule, seeds = LaborRule(10, exact=exact), torch.arange(len(DEGREES))

    def sample():
        hops = [sample_hop(indptr, indices, seeds, rule, k, weights=weights if weighted else None) for k in range(10)]
        return [hop.positions for hop in hops]

    assert_all_same(with_each(sample))


@pytest.mark.slow
def test_draws_that_have_to_be_repeated():
    """One in some hundred rows of a million has a draw that Lemire's method repeats, or looks at closely."""
    indptr, indices = torch.tensor([0, 1_000_000]), torch.zeros(1_000_000, dtype=torch.int32)
    sampler, seeds = BlockSampler(indptr, indices), torch.tensor([0])

    def sample():
        return [sampler.sample(seeds, [NeighborRule(10)], [key]).hops[0].edge_ids for key in range(5_000)]

    assert_all_same(with_each(sample))


@pytest.mark.parametrize("fanout", [3, 9, 16])
def test_draws_that_replacements_repeat(fanout):
    """In rows that have hardly more edges than are picked, edges that replace a repeated draw repeat later draws."""
    degrees = torch.arange(fanout + 1, fanout + 4).repeat(300)
    indptr = torch.nn.functional.pad(degrees.cumsum(0), (1, 0))
    sampler = BlockSampler(indptr, torch.zeros(int(indptr[-1]), dtype=torch.int32))

    def sample():
        return [sampler.sample(torch.arange(len(degrees)), [NeighborRule(fanout)], [0]).hops[0].edge_ids]

    assert_all_same(with_each(sample))
