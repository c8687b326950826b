"""One hop, and the fused sampler of several, against the reference: bit for bit, whatever the threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import BlockSampler, LaborRule, NeighborRule, _native, compact, reference, sample_hop

from samples import BIG_RULES, assert_same, assert_same_sample, numpy_of, same
from strategies import csc_graphs, edge_weights, expands, keys, nodes_of, rules, thread_counts

pytestmark = pytest.mark.twins


@given(csc_graphs(), rules(), keys, thread_counts, st.booleans(), st.data())
def test_hop_equals_reference(graph, rule, key, num_threads, weighted, data):
    frontier = data.draw(nodes_of(graph, unique=False))
    weights = data.draw(edge_weights(graph)) if weighted else None
    hop = sample_hop(graph.indptr, graph.indices, frontier, rule, key, weights=weights, num_threads=num_threads)
    oracle = reference.sample_hop(
        graph.indptr.numpy(), graph.indices.numpy(), frontier.numpy(), rule, key, weights=numpy_of(weights)
    )
    assert hop.neighbors.dtype == graph.indices.dtype
    for field in ("indptr", "neighbors", "positions", "weights"):
        assert_same(getattr(hop, field), getattr(oracle, field))


@given(csc_graphs(), st.lists(st.tuples(rules(), keys), min_size=1, max_size=3), expands, thread_counts, st.data())
def test_fused_equals_reference(graph, hops, expand, num_threads, data):
    seeds = data.draw(nodes_of(graph))
    weights = data.draw(st.one_of(st.none(), edge_weights(graph)))
    hop_rules, hop_keys = zip(*hops, strict=True)
    sampler = BlockSampler(graph.indptr, graph.indices, graph.edge_ids, weights)
    oracle = reference.sample_blocks(
        graph.indptr.numpy(),
        graph.indices.numpy(),
        seeds.numpy(),
        hop_rules,
        hop_keys,
        expand=expand,
        edge_ids=numpy_of(graph.edge_ids),
        weights=numpy_of(weights),
    )
    for _ in range(2):  # the second call finds the node map used
        sampled = sampler.sample(seeds, hop_rules, hop_keys, expand=expand, num_threads=num_threads)
        assert_same_sample(sampled, oracle)
    assert sampled.hops[0].indices.dtype == graph.indices.dtype
    assert sampled.hops[0].edge_ids is not None
    assert sampled.hops[0].edge_ids.dtype == torch.int64


@pytest.mark.slow
@pytest.mark.combinations(8)
@pytest.mark.parametrize("rule", BIG_RULES, ids=str)
@pytest.mark.parametrize("expand", ["all", "new"])
@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
def test_fused_equals_hop_and_compact(skewed, rule, expand, weighted):
    """On a graph large enough for several tasks per thread and for hubs; 2 hops in steps against 2 hops at once.

    By weight, a hop in steps makes the sums of its rows, hops at once read those of the graph.
    """
    indptr, indices, edge_ids = skewed
    weights = torch.rand(len(indices), generator=torch.Generator().manual_seed(1)) if weighted else None
    n_id, first, parts = torch.arange(0, 5_000, 10), 0, []
    for key in (3, 4):
        hop = sample_hop(indptr, indices, n_id[first:], rule, key, weights=weights, num_threads=2)
        compacted = compact(n_id, hop.neighbors)
        parts.append((hop.indptr, compacted.indices, edge_ids[hop.positions]))
        first = len(n_id) if expand == "new" else 0
        n_id = compacted.ids
    sampled = BlockSampler(indptr, indices, edge_ids, weights).sample(
        torch.arange(0, 5_000, 10), [rule, rule], [3, 4], expand=expand
    )
    assert torch.equal(sampled.n_id, n_id)
    if expand == "all":
        got = [(hop.indptr, hop.indices, hop.edge_ids) for hop in sampled.hops]
    else:
        (shared,) = sampled.hops
        got = [(shared.indptr, shared.indices, shared.edge_ids)]
        degrees = torch.cat([part[0].diff() for part in parts])
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)])
        parts = [(starts, torch.cat([part[1] for part in parts]), torch.cat([part[2] for part in parts]))]
    for one, other in zip(got, parts, strict=True):
        assert all(same(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.slow
@pytest.mark.combinations(5)
@pytest.mark.parametrize("num_threads", [1, 2, 4])
@pytest.mark.parametrize("degrees", [(1, 39), (60, 1), (0, 0)], ids=str)
def test_what_is_reached_may_outgrow_its_room_again_and_again(degrees, num_threads):
    """The first rows say little of those that follow; and the ids that are still to be looked up are moved.

    The picks of a chunk of 39 edges a row are as large as the ids were, and would come to lie where these were.
    """
    random = np.random.default_rng(0)
    num_seeds, num_nodes = 20_000, 300_000
    degree = np.repeat([*degrees, 0], [15_000, num_seeds - 15_000, num_nodes - num_seeds])
    indptr = np.concatenate([[0], np.cumsum(degree)])
    indices = random.integers(0, num_nodes, indptr[-1]).astype(np.int32)
    sampler = BlockSampler(indptr, indices)
    seeds = np.arange(num_seeds)
    sampled = sampler.sample(seeds, [NeighborRule(-1)], [3], num_threads=num_threads)
    (hop,) = sampled.hops
    assert torch.equal(hop.indptr, torch.from_numpy(indptr[: num_seeds + 1]))
    assert torch.equal(sampled.n_id[hop.indices.long()], torch.from_numpy(indices).long())
    assert torch.equal(hop.edge_ids, torch.arange(len(indices)))
    assert sampled.n_id.tolist() == list(dict.fromkeys([*range(num_seeds), *indices.tolist()]))


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_later_hop_may_outgrow_its_room_too(num_threads):
    """Its frontier is the end of what grows: 300 seeds, then 9,000 nodes, the last of which have many edges."""
    random = np.random.default_rng(0)
    num_nodes = 400_000
    degree = np.repeat([30, 1, 39, 0], [300, 6_000, 3_000, num_nodes - 9_300])
    indptr = np.concatenate([[0], np.cumsum(degree)])
    indices = np.concatenate([300 + np.arange(9_000), random.integers(0, num_nodes, indptr[-1] - 9_000)])
    sampler = BlockSampler(indptr, indices)
    rules = [NeighborRule(-1), NeighborRule(-1)]
    sampled = sampler.sample(np.arange(300), rules, [1, 2], expand="new", num_threads=num_threads)
    (shared,) = sampled.hops
    assert torch.equal(sampled.n_id[shared.indices], torch.from_numpy(indices))
    assert torch.equal(shared.indptr, torch.from_numpy(indptr[:9_301]))


@pytest.mark.parametrize("first_number", [2**31 - 5, 2**31])
@pytest.mark.parametrize("most_slots", [0, 3])
def test_the_node_map_starts_over(first_number, most_slots):
    """When its running numbers are used up it is cleared, and must not take an old number for a new one."""
    indptr, indices = np.array([0, 2, 4, 6]), np.array([1, 2, 0, 2, 0, 1])
    fresh = _native.FusedSampler(indptr, indices, None, None)
    old = _native.FusedSampler(indptr, indices, None, None, first_number=first_number, most_slots=most_slots)
    for seed in (0, 1, 2, 0, 1, 2):
        arguments = (np.array([seed]), [[_native.Rule("neighbor", -1)]], [0], False, True, 1)
        one, other = fresh.sample(*arguments), old.sample(*arguments)
        assert one[0].tolist() == other[0].tolist()
        assert one[1][0][1].tolist() == other[1][0][1].tolist()


def test_a_table_of_the_minibatch_serves_as_node_map(skewed):
    """As for graphs of more than 2**27 nodes; it grows in the midst of a batch and is used again for the next."""
    arrays = [array.numpy() for array in skewed[:2]]
    slots = _native.FusedSampler(*arrays, None, None)
    table = _native.FusedSampler(*arrays, None, None, most_slots=0)
    for seed in range(6):
        seeds = np.random.default_rng(seed).choice(2_000, 10 + 100 * seed, replace=False)
        arguments = (seeds, [[_native.Rule("neighbor", 10)]] * 3, [seed, 1, 2], False, True, 2)
        one, other = slots.sample(*arguments), table.sample(*arguments)
        assert np.array_equal(one[0], other[0])
        for block, again in zip(one[1], other[1], strict=True):
            assert np.array_equal(block[1], again[1])
    assert slots.scratch_bytes() == 4 * (len(arrays[0]) - 1)
    assert 16 * len(one[0]) <= table.scratch_bytes() <= 64 * len(one[0])


def test_without_edge_ids(skewed):
    sampled = BlockSampler(*skewed).sample(torch.tensor([3]), [NeighborRule(5)], [1], edge_ids=False)
    assert sampled.hops[0].edge_ids is None


def test_results_outlive_the_sampler(skewed):
    sampled = BlockSampler(*(part.clone() for part in skewed)).sample(torch.tensor([3]), [NeighborRule(5)], [1])
    sampled.n_id.add_(0)
    assert sampled.hops[0].indptr.tolist() == [0, 5]


def test_expand_new_without_common_weights_has_none():
    indptr, indices, weights = torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.ones(2)
    sampler = BlockSampler(indptr, indices, weights=weights)
    mixed = sampler.sample(torch.tensor([0]), [LaborRule(1), NeighborRule(1)], [1, 2], expand="new")
    assert mixed.hops[0].weights is None
    blocks = sampler.sample(torch.tensor([0]), [LaborRule(1), NeighborRule(1)], [1, 2])
    assert same(blocks.hops[0].weights, torch.ones(1))
    assert blocks.hops[1].weights is None
