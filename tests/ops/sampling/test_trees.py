"""The fused sampler where seeds grow trees: against the reference, which does it element by element."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import (
    BlockSampler,
    InputError,
    LaborRule,
    LadiesRule,
    LatestRule,
    NeighborRule,
    Trees,
    _native,
    reference,
    sample_hop,
)

from samples import assert_same, numpy_of
from strategies import csc_graphs, edge_weights, keys, nodes_of, rules, thread_counts

pytestmark = pytest.mark.twins

MOMENTS = st.integers(-3, 3)
PER_DESTINATION = rules().filter(lambda rule: rule.per_destination)


def ints(data, size, values=MOMENTS):
    return torch.tensor(data.draw(st.lists(values, min_size=size, max_size=size)), dtype=torch.int64)


def times_of(graph, data):
    times = ints(data, len(graph.indices)).numpy()
    for start, stop in zip(graph.indptr[:-1], graph.indptr[1:], strict=True):
        times[start:stop].sort()
    return times


@pytest.mark.slow
@given(
    csc_graphs(),
    st.lists(st.tuples(PER_DESTINATION, keys), min_size=1, max_size=3),
    thread_counts,
    st.sampled_from(["all", "new"]),
    st.data(),
)
def test_trees_equal_the_reference(graph, hops, num_threads, expand, data):
    seeds = data.draw(nodes_of(graph, unique=False, max_size=6))
    num_trees = len(seeds) + data.draw(st.integers(0, 2))
    weights = data.draw(st.one_of(st.none(), edge_weights(graph)))
    hop_rules = [rule for rule, _ in hops]
    if weights is None:
        hop_rules = [data.draw(st.sampled_from([rule, LatestRule(rule.fanout)])) for rule in hop_rules]
    some = [data.draw(st.booleans()) for _ in range(3)]
    times = times_of(graph, data) if some[1] else None
    trees = Trees(
        torch.arange(len(seeds)),
        num_trees,
        ints(data, num_trees, st.integers(0, 9)) if some[0] else None,
        ints(data, num_trees) if some[1] else None,
        ints(data, num_trees) if some[1] and some[2] else None,
    )
    sampler = BlockSampler(graph.indptr, graph.indices, graph.edge_ids, weights, times=times)
    for _ in range(2):  # the second call finds the map used
        found = sampler.sample(
            seeds, hop_rules, [key for _, key in hops], expand=expand, num_threads=num_threads, trees=trees
        )
        expected = reference.sample_blocks(
            graph.indptr.numpy(),
            graph.indices.numpy(),
            seeds.numpy(),
            hop_rules,
            [key for _, key in hops],
            expand=expand,
            edge_ids=numpy_of(graph.edge_ids),
            weights=numpy_of(weights),
            times=times,
            trees=trees,
        )
        assert_same(found.n_id, expected.n_id)
        assert_same(found.slots, expected.slots)
        assert found.num_sampled_nodes == expected.num_sampled_nodes
        assert found.num_sampled_edges == expected.num_sampled_edges
        for one, other in zip(found.hops, expected.hops, strict=True):
            assert (one.num_dst, one.num_src) == (other.num_dst, other.num_src)
            assert one.indices.dtype == graph.indices.dtype
            for name in ("indptr", "indices", "edge_ids", "weights"):
                mine, theirs = getattr(one, name), getattr(other, name)
                assert (mine is None) == (theirs is None)
                assert mine is None or np.array_equal(mine, theirs)


def one_hop(rule, weights=None):
    """What one tree picks in a window that leaves out the first two of 40 in-edges, fused and not."""
    sources = np.arange(40) % 7 + 1
    indptr, times = np.array([0, 40, *[40] * 7]), np.arange(40)
    slots, bounds, lows = np.array([0]), np.array([38]), np.array([2])
    arguments = {"weights": weights, "slots": slots, "times": times, "bounds": bounds, "lows": lows}
    plain = sample_hop(indptr, sources, np.array([0]), rule, 5, **arguments)
    sampler = BlockSampler(indptr, sources, None, weights, times=times)
    trees = Trees(*map(torch.from_numpy, (slots,)), 1, None, torch.from_numpy(bounds), torch.from_numpy(lows))
    fused = sampler.sample(np.array([0]), [rule], [5], trees=trees)
    return plain.positions.tolist(), fused.hops[0].edge_ids.tolist()


@pytest.mark.parametrize("exact", [True, False])
def test_repeats_are_counted_from_where_a_window_begins(exact):
    """What is known of parallel edges of whole rows does not hold of a row that is cut in front."""
    plain, fused = one_hop(LaborRule(9, exact=exact))
    assert plain == fused


@pytest.mark.parametrize("replace", [True, False])
def test_draws_by_weight_in_a_window(replace):
    """Running sums of whole rows do not hold there either."""
    plain, fused = one_hop(NeighborRule(4, replace), np.random.default_rng(0).random(40))
    assert plain == fused


def test_edges_without_ids():
    sampler = BlockSampler(np.array([0, 2, 2]), np.array([1, 1]))
    found = sampler.sample(
        np.zeros(2, np.int64), [NeighborRule(-1)], [1], edge_ids=False, trees=Trees(torch.arange(2), 2)
    )
    assert found.hops[0].edge_ids is None
    assert found.hops[0].indices.tolist() == [2, 2, 3, 3]


@pytest.mark.cpu
def test_maps_are_kept():
    sampler = BlockSampler(np.array([0, 2, 2]), np.array([1, 1]))
    assert sampler.scratch_bytes == 0
    sampler.sample(np.zeros(2, np.int64), [NeighborRule(-1)], [1], trees=Trees(torch.arange(2), 2))
    assert sampler.scratch_bytes > 0


def grown(seeds=(0, 0), rule=None, times=None, **trees):
    arguments = {"slots": torch.arange(len(seeds)), "num_trees": len(seeds), **trees}
    sampler = BlockSampler(np.array([0, 2, 2]), np.array([0, 1]), times=times)
    return sampler.sample(np.array(seeds, np.int64), [rule or NeighborRule(1)], [0], trees=Trees(**arguments))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"slots": torch.zeros(2, dtype=torch.int64)}, InputError, r"seeds\[0\] and seeds\[1\] are both 0 in slot 0"),
        ({"slots": torch.arange(3)}, InputError, r"slots to have one entry per seed \(2\), got 3"),
        ({"slots": torch.tensor([0, 2])}, InputError, r"slots\[1\] = 2 is no tree: expected 0 <= slot < 2"),
        ({"slots": torch.tensor([0, -1])}, InputError, r"slots\[1\] = -1 is no tree"),
        ({"num_trees": 0}, InputError, r"slots\[0\] = 0 is no tree"),
        ({"slots": torch.tensor([3, 0])}, InputError, r"slots\[0\] = 3 is no tree"),
        ({"seeds": (0, 2)}, InputError, r"seeds\[1\] = 2 is not a node of the graph"),
        ({"streams": torch.arange(3)}, InputError, r"streams to have one entry per tree \(2\), got 3"),
        ({"bounds": torch.arange(1)}, InputError, r"bounds to have one entry per tree \(2\), got 1"),
        ({"bounds": torch.arange(2)}, InputError, "expected the times of edges for a frontier with bounds"),
        ({"lows": torch.arange(2)}, InputError, "expected bounds for a frontier with lower bounds"),
        ({"rule": LadiesRule(1)}, InputError, "expected a frontier without slots for a layer-wise rule"),
        ({"times": np.zeros(3, np.int64)}, InputError, r"times to have one entry per edge \(2\), got 3"),
        ({"num_trees": (1 << 62) + 1}, InputError, "are more than 63 bits can tell apart"),
    ],
)
def test_refusals(arguments, error, message):
    with pytest.raises(error, match=message):
        grown(**arguments)


def test_a_source_that_is_no_node_is_refused():
    sampler = _native.FusedSampler(np.array([0, 1]), np.array([5]), None, None)
    zero = np.zeros(1, np.int64)
    rule = _native.Rule("neighbor", -1)
    with pytest.raises(InputError, match="indices hold 5, which is not a node id"):
        sampler.sample(zero, [[rule]], [0], False, True, 1, trees=(zero, 1, None, None, None))
