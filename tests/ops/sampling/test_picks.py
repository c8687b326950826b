"""Which edges rules pick: distinct ones, and those of LABOR by variates that sources share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import BlockSampler, LaborRule, NeighborRule, _native, reference, sample_hop

from strategies import csc_graphs, keys, nodes_of

pytestmark = pytest.mark.twins


@given(csc_graphs(), keys, st.integers(0, 70), st.data())
def test_without_replacement_edges_are_distinct(graph, key, fanout, data):
    frontier = data.draw(nodes_of(graph))
    degrees = graph.indptr.diff()[frontier]
    for rule in (NeighborRule(fanout), LaborRule(fanout)):
        hop = sample_hop(graph.indptr, graph.indices, frontier, rule, key)
        assert torch.equal(hop.indptr.diff(), degrees.clamp(max=fanout))
        assert hop.positions.unique().numel() == hop.positions.numel()


@pytest.mark.parametrize("fanout", [32, 33, 64, 100, 999])
def test_large_fanouts_use_another_duplicate_check(fanout):
    """Around the switch from a scan of the picks to a hash table, on a row of 1,000 edges."""
    indptr, indices = torch.tensor([0, 1_000]), torch.zeros(1_000, dtype=torch.int64)
    hop = sample_hop(indptr, indices, torch.tensor([0]), NeighborRule(fanout), 5)
    assert hop.positions.tolist() == reference.pick_uniform(0, 1_000, fanout, 5, replace=False)


def test_a_destination_listed_twice_repeats_its_picks(skewed):
    indptr, indices, _ = skewed
    hop = sample_hop(indptr, indices, torch.tensor([1, 0, 1]), NeighborRule(5), 8)
    assert hop.positions[:5].tolist() == hop.positions[10:].tolist()


@given(csc_graphs(min_nodes=2), keys, st.integers(1, 6), st.booleans())
def test_labor_variates_are_shared(graph, key, fanout, exact):
    """Of two destinations the one with more in-edges keeps, of those that they share, a subset.

    Holds for Poisson picks always (a smaller threshold), for exact picks when all variates of the smaller neighbourhood
    are among those of the larger one; so one destination is given the other's in-neighbours and more.
    """
    small, large = graph.indices[: graph.num_edges // 2], graph.indices
    indptr = torch.tensor([0, len(small), len(small) + len(large)])
    num_nodes = max(2, graph.num_nodes)
    padded = torch.cat([indptr, indptr[-1:].expand(num_nodes - 2)])
    hop = sample_hop(padded, torch.cat([small, large]), torch.tensor([0, 1]), LaborRule(fanout, exact), key)
    of_small = set(hop.positions[: hop.indptr[1]].tolist())
    of_large = set((hop.positions[hop.indptr[1] :] - len(small)).tolist())
    assert of_large & set(range(len(small))) <= of_small


@given(csc_graphs(min_nodes=2), keys, st.integers(1, 6), st.booleans())
def test_labor_picks_of_equal_neighbourhoods_agree(graph, key, fanout, exact):
    degree = graph.num_edges
    indptr = torch.tensor([0, degree, 2 * degree] + [2 * degree] * (graph.num_nodes - 2))
    hop = sample_hop(indptr, graph.indices.repeat(2), torch.tensor([0, 1]), LaborRule(fanout, exact), key)
    first, second = hop.positions.split(hop.indptr.diff().tolist())
    assert torch.equal(first, second - degree)


def test_labor_touches_fewer_nodes(skewed):
    indptr, indices, _ = skewed
    sampler, seeds = BlockSampler(indptr, indices), torch.arange(2_000)
    counts = [len(sampler.sample(seeds, [rule], [1]).n_id) for rule in (LaborRule(5), NeighborRule(5))]
    assert counts[0] < 0.9 * counts[1]


def test_ids_beyond_32_bits_take_part_in_the_variate():
    """A frontier and sources above 2**32 would need a graph of 32 GB; the variate itself is checked instead."""
    nodes = np.array([2**32, 2**32 + 1, 2**40 + 3])
    everything = (9, 2**32 - 1, len(nodes), _native.InstructionSet.PORTABLE)
    high, _, _ = _native.labor_scan(nodes, *everything)
    assert high.tolist() == [reference.labor_variate(9, int(node)) >> 32 for node in nodes]
    assert not np.isin(high, _native.labor_scan(nodes % 2**32, *everything)[0]).any()


def test_edges_of_weight_zero_are_not_drawn_among_the_smallest_doubles():
    """There the product of a variate and the total rounds up to the total."""
    indptr, indices = torch.tensor([0, 3, 3, 3]), torch.tensor([0, 1, 2])
    weights = torch.tensor([0.0, 5e-324, 0.0], dtype=torch.float64)
    for key in range(50):
        hop = sample_hop(
            indptr, indices, torch.tensor([0]), NeighborRule(4, replace=True), key, weights=weights, num_threads=1
        )
        assert hop.neighbors.tolist() == [1, 1, 1, 1]
    sampler = BlockSampler(indptr, indices, weights=weights, trust_weights=True)
    for key in range(50):
        sampled = sampler.sample(torch.tensor([0]), [NeighborRule(4, replace=True)], [key])
        assert sampled.n_id[sampled.hops[0].indices.long()].tolist() == [1, 1, 1, 1]
