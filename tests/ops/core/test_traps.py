"""Mistakes that samplers make without failing any plain test, each with the test that would see it.

====================================================  ==================================================================
r_t keyed by edge or by destination                   test_picks.py: test_labor_variates_are_shared;
                                                      test_designs.py: test_destinations_share_the_variate_of_a_source
random numbers keyed by local ids                     here: test_a_later_hop_is_keyed_by_global_ids
other variates in other layers under one key          here: test_one_key_means_one_neighbourhood_in_all_hops
in-degree = fan-out: probability just below 1         here: test_rows_of_the_fanout_are_taken_whole
exact picks by weight: u / p taken for -ln(u) / p     test_designs.py: test_inclusion_and_joint_inclusion,
                                                      test_the_designs_by_weight_differ
logarithm at the ends of (0, 1)                       test_sample_law.py: test_the_logarithm_is_the_logarithm
equal variates                                        here: test_ties_go_to_the_first_positions
rounding of k / d                                     here: test_thresholds_are_exact
no number where a row's weights sum to 0              here: test_rows_of_no_weight_pick_nothing
mean of HT-weighted messages normalised twice         test_sample_law.py: test_importance_weights_estimate_...;
                                                      test_designs.py: test_hajek
empty neighbourhoods                                  here: test_an_empty_choice_has_no_weights
seeds that are not first among the sources            here: test_destinations_come_first
the node map is filled anew, or not at all            test_sample.py: test_the_node_map_starts_over;
                                                      here: test_a_call_leaves_nothing_behind
seeds that are not unique                             test_sample_refusals.py: test_refuses_bad_seeds_...
a biased reservoir                                    test_uniformity.py
one generator per thread                              test_sample_threads.py: test_threads_do_not_...
overflow of prefix sums                               test_sample_refusals.py: test_more_picks_than_...;
                                                      here: test_counts_are_64_bits_wide
rows returned in the order of their owner             test_gather.py; here: test_rows_come_in_the_order_of_the_request
fused and two steps disagree                          test_sample.py: test_fused_equals_reference,
                                                      test_fused_equals_hop_and_compact; here:
                                                      test_large_frontiers_equal_the_reference
====================================================  ==================================================================
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from headrace.ops import BlockSampler, LaborRule, NeighborRule, compact, gather_rows, reference, sample_hop

RULES = [NeighborRule(2), NeighborRule(2, replace=True), LaborRule(2), LaborRule(2, exact=False)]
rules = pytest.mark.parametrize("rule", RULES, ids=str)
weightings = pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
NUM_NODES, NUM_SEEDS = 12_000, 2_100


@cache
def graph():
    """12,000 nodes of in-degrees 0 to 12, and weights with zeros among them."""
    random = np.random.default_rng(3)
    indptr = np.concatenate([[0], random.integers(0, 13, NUM_NODES).cumsum()])
    indices = random.integers(0, NUM_NODES, indptr[-1])
    return indptr, indices, random.random(len(indices)) * (random.random(len(indices)) < 0.9)


def sampled(rule, seeds, keys, *, weighted=False, dtype=np.int64, **options):
    indptr, indices, weights = graph()
    sampler = BlockSampler(indptr, indices.astype(dtype), weights=weights if weighted else None)
    return sampler.sample(torch.as_tensor(seeds), [rule] * len(keys), keys, **options)


def global_edges(sample, hop):
    """(destination, source) of the edges of a hop, by destination."""
    found = {}
    block = sample.hops[hop]
    sources = sample.n_id[block.indices.long()].split(block.indptr.diff().tolist())
    for node, row in zip(sample.n_id[: block.num_dst].tolist(), sources, strict=True):
        found[node] = row.tolist()
    return found


# --- keys -------------------------------------------------------------------------------------------------------------


@rules
@weightings
def test_a_later_hop_is_keyed_by_global_ids(rule, weighted):
    """A node picks the same as a seed, first or last of them, and as a destination found on the way."""
    indptr, indices, weights = graph()
    found = global_edges(sampled(rule, [7, 8, 9], [1, 2], weighted=weighted), 1)
    assert len(found) > 3
    alone = weights if weighted else None
    for node, picks in found.items():
        hop = sample_hop(indptr, indices, torch.tensor([node]), rule, 2, weights=alone)
        assert hop.neighbors.tolist() == picks
    shifted = global_edges(sampled(rule, [100, 9, 8, 7], [2], weighted=weighted), 0)
    assert all(shifted[node] == found[node] for node in (7, 8, 9))


@rules
@weightings
def test_one_key_means_one_neighbourhood_in_all_hops(rule, weighted):
    """Layer dependency: under one key a node has the same picks in every hop; under two it has not."""
    seeds = np.arange(0, NUM_NODES, 10)
    same = sampled(rule, seeds, [5, 5], weighted=weighted)
    first, second = global_edges(same, 0), global_edges(same, 1)
    assert all(second[node] == picks for node, picks in first.items())
    other = global_edges(sampled(rule, seeds, [5, 6], weighted=weighted), 1)
    assert sum(other[node] != picks for node, picks in first.items()) > len(seeds) / 4


# --- probabilities at their ends --------------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "poisson"])
@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5, 4.0, 1.0]], ids=["uniform", "weighted"])
def test_rows_of_the_fanout_are_taken_whole(exact, weights):
    """20,000 rows of 5 and a fan-out of 5: a probability of 0.9999 would lose an edge in about ten of them."""
    degree, num_dst = 5, 20_000
    indptr = torch.arange(num_dst + 1) * degree
    frontier = torch.arange(num_dst)
    tiled = None if weights is None else torch.tensor(weights).repeat(num_dst)
    hop = sample_hop(indptr, torch.arange(num_dst * degree), frontier, LaborRule(5, exact), 3, weights=tiled)
    assert torch.equal(hop.positions, torch.arange(num_dst * degree))


@pytest.mark.parametrize("fanout", [1, 2, 5])
def test_ties_go_to_the_first_positions(fanout):
    """Edges of one source have one variate, if it is promised, wrongly, that there are no such edges."""
    for weights in (None, torch.ones(8)):
        indptr, indices, frontier = torch.tensor([0, 8]), torch.zeros(8, dtype=torch.int64), torch.tensor([0])
        hop = sample_hop(indptr, indices, frontier, LaborRule(fanout), 3, weights=weights, parallel_edges=False)
        assert hop.positions.tolist() == list(range(fanout))


def test_thresholds_are_exact():
    """A source of variate r is kept iff r * d < k * 2**64, in integers: no rounding of k / d decides.

    So an edge from this source is kept in rows of up to a certain number of edges, and not in longer ones.
    """
    key, fanout, decided = 11, 3, 0
    for source in range(200):
        variate = reference.labor_variate(key, source)
        last = (fanout * (1 << 64) - 1) // variate if variate else 0  # the largest d with r * d < k * 2**64
        if not fanout < last < 3_000:
            continue
        for degree in (last, last + 1):
            indices = torch.cat([torch.tensor([source]), torch.arange(1_000, 1_000 + degree - 1)])
            hop = sample_hop(torch.tensor([0, degree]), indices, torch.tensor([0]), LaborRule(fanout, exact=False), key)
            assert (0 in hop.positions.tolist()) == (degree == last)
        decided += 1
    assert decided > 100


@pytest.mark.parametrize("rule", [*RULES, NeighborRule(-1), LaborRule(-1)], ids=str)
def test_rows_of_no_weight_pick_nothing(rule):
    """Not one edge, and no 0 / 0 in the weights of the rows around them."""
    indptr, indices = torch.tensor([0, 4, 8, 12, 12]), torch.tensor([1, 2, 3, 0] * 3)
    weights = torch.tensor([1.0, 2, 3, 4] + [0.0] * 4 + [4.0, 3, 2, 1])
    hop = sample_hop(indptr, indices, torch.arange(4), rule, 1, weights=weights)
    assert hop.indptr.diff()[1] == 0
    assert hop.indptr.diff()[3] == 0
    assert hop.weights is None or torch.isfinite(hop.weights).all()


@pytest.mark.parametrize("weights", [None, [1.0] * 40], ids=["uniform", "weighted"])
def test_an_empty_choice_has_no_weights(weights):
    """Poisson picks of 1 of 40 are none in about one case of three: then there is no weight, of any value."""
    tensor = None if weights is None else torch.tensor(weights)
    hops = [
        sample_hop(
            torch.tensor([0, 40] + [40] * 39),
            torch.arange(40),
            torch.tensor([0, 1]),
            LaborRule(1, exact=False),
            key,
            weights=tensor,
        )
        for key in range(50)
    ]
    assert 5 < sum(len(hop.neighbors) == 0 for hop in hops) < 35
    assert all(hop.weights is None or len(hop.weights) == len(hop.neighbors) for hop in hops)


# --- the fused sampler ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expand", ["all", "new"])
def test_destinations_come_first(expand):
    """Layers with a self term read row i of the sources for destination i; sources are named once, as they appear."""
    seeds = [2_000, 5, 77, 1]
    sample = sampled(NeighborRule(3), seeds, [1, 2], expand=expand)
    assert sample.n_id[:4].tolist() == seeds
    assert sample.n_id.unique().numel() == sample.n_id.numel()
    for block in sample.hops:
        new = block.indices[block.indices >= (block.num_dst if expand == "all" else 4)]
        first_seen = list(dict.fromkeys(new.tolist()))
        assert first_seen == sorted(first_seen)


def test_a_call_leaves_nothing_behind():
    """The map of nodes outlives a call, and one that failed; a later call may see neither."""
    indptr, indices, _ = graph()
    sampler = BlockSampler(indptr, indices)
    seeds = [torch.arange(start, start + 200) for start in range(0, 2_000, 200)]
    fresh = [BlockSampler(indptr, indices).sample(part, RULES[:1], [9]).n_id for part in seeds]
    for _ in range(3):
        for part, expected in zip(seeds, fresh, strict=True):
            assert torch.equal(sampler.sample(part, RULES[:1], [9]).n_id, expected)
            with pytest.raises(ValueError, match="expected unique seeds"):
                sampler.sample(torch.tensor([4, 5, 4]), RULES[:1], [9])


def test_the_last_node_of_a_call_is_forgotten_too():
    """Its running number is the last that the call has used."""
    indptr, indices, _ = graph()
    sampler = BlockSampler(indptr, indices)
    for start in range(0, 400, 40):
        last = sampler.sample(torch.arange(start, start + 40), RULES[:1], [9]).n_id[-1]
        seeds = torch.stack([(last + 1) % NUM_NODES, last])
        expected = BlockSampler(indptr, indices).sample(seeds, RULES[:1], [9]).n_id
        assert torch.equal(sampler.sample(seeds, RULES[:1], [9]).n_id, expected)


def test_counts_are_64_bits_wide():
    """A result of 2**31 edges would take 32 GB; its counts are of a width that holds them whatever the ids'."""
    sample = sampled(NeighborRule(2), [1, 2], [3], dtype=np.int32)
    assert sample.hops[0].indptr.dtype == torch.int64
    assert sample.hops[0].indices.dtype == torch.int32


def test_rows_come_in_the_order_of_the_request():
    features = torch.arange(50.0)[:, None] * torch.ones(7)
    ids = torch.tensor([40, 3, 3, 49, 0, 40])
    assert gather_rows(features, ids)[:, 0].tolist() == [40, 3, 3, 49, 0, 40]
    assert gather_rows(features, ids.flip(0))[:, 0].tolist() == [40, 0, 49, 3, 3, 40]


@cache
def oracle(rule, weighted, expand):
    indptr, indices, weights = graph()
    return reference.sample_blocks(
        indptr,
        indices,
        np.arange(NUM_SEEDS),
        [rule, rule],
        [3, 4],
        expand=expand,
        weights=weights if weighted else None,
    )


@pytest.mark.slow
@rules
@weightings
@pytest.mark.parametrize("expand", ["all", "new"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_large_frontiers_equal_the_reference(rule, weighted, expand, dtype, num_threads):
    """Hops of 2,100 destinations and more are several tasks for several threads: their pieces make one whole."""
    expected = oracle(rule, weighted, expand)
    sample = sampled(
        rule, np.arange(NUM_SEEDS), [3, 4], weighted=weighted, dtype=dtype, expand=expand, num_threads=num_threads
    )
    assert np.array_equal(sample.n_id, expected.n_id)
    assert sample.num_sampled_edges == expected.num_sampled_edges
    assert sample.num_sampled_nodes[1] > 2_048  # so that the second hop has several tasks as well
    for hop, other in zip(sample.hops, expected.hops, strict=True):
        assert hop.indices.numpy().dtype == dtype
        for field in ("indptr", "indices", "edge_ids", "weights"):
            got, right = getattr(hop, field), getattr(other, field)
            assert (got is None) == (right is None)
            assert got is None or np.array_equal(got.numpy(), right)


@rules
@weightings
def test_large_frontiers_in_two_steps(rule, weighted):
    """sample_hop and compact, on two threads, are the same again."""
    indptr, indices, weights = graph()
    seeds = torch.arange(NUM_NODES - 1, -1, -1)
    hop = sample_hop(indptr, indices, seeds, rule, 3, weights=weights if weighted else None, num_threads=2)
    compacted = compact(seeds, hop.neighbors)
    sample = sampled(rule, seeds, [3], weighted=weighted, num_threads=3)
    assert torch.equal(sample.n_id, compacted.ids)
    assert torch.equal(sample.hops[0].indices, compacted.indices)
    assert torch.equal(sample.hops[0].edge_ids, hop.positions)
