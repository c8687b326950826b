"""Picks of LABOR by blended variates: those of the reference, and by the law of any other batch."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from headrace.ops import (
    BlendedKey,
    BlockSampler,
    InputError,
    LaborImportanceRule,
    LaborRule,
    LadiesRule,
    NeighborRule,
    _native,
    reference,
    sample_hop,
    stream_key,
)

from instruction_sets import SETS
from layers import assert_frequencies, edge_probabilities, layer
from samples import assert_same
from strategies import csc_graphs, edge_weights, keys, labor_importance_rules, nodes_of, thread_counts

pytestmark = pytest.mark.twins

steps = st.integers(1, 300).flatmap(lambda num: st.tuples(st.integers(0, num - 1), st.just(num)))
blended_keys = st.builds(lambda one, other, part: BlendedKey(one, other, *part), keys, keys, steps)
rules = st.one_of(st.builds(LaborRule, st.integers(-1, 8), st.booleans()), labor_importance_rules(st.integers(-1, 8)))


@given(csc_graphs(), rules, blended_keys, thread_counts, st.booleans(), st.booleans(), st.data())
def test_hops_equal_the_reference(graph, rule, key, num_threads, weighted, in_slots, data):
    frontier = data.draw(nodes_of(graph, unique=True))
    weights = data.draw(edge_weights(graph)) if weighted else None
    slots = None
    if in_slots and rule.per_destination:
        slots = np.array(data.draw(st.lists(st.integers(-2, 2), min_size=len(frontier), max_size=len(frontier))), int)
    hop = sample_hop(
        graph.indptr, graph.indices, frontier, rule, key, weights=weights, num_threads=num_threads, slots=slots
    )
    right = reference.sample_hop(graph.indptr, graph.indices, frontier, rule, key, weights=weights, slots=slots)
    for part in ("indptr", "neighbors", "positions", "weights"):
        assert_same(getattr(hop, part), getattr(right, part))
    if slots is None:
        fused = BlockSampler(graph.indptr, graph.indices, weights=weights).sample(frontier, [rule], [key])
        assert fused.hops[0].edge_ids.tolist() == right.positions.tolist()


@pytest.mark.parametrize("one", SETS)
@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 2**31).flatmap(lambda num: st.tuples(st.integers(0, num - 1), st.just(num))),
    st.integers(0, 2**32 - 1) | st.sampled_from([0, 1, 7, 8, 2**28, 2**29, 2**32 - 1]),
    keys,
    st.integers(0, 700),
)
def test_tables_leave_out_no_edge(one, part, bound, key, count):
    """The scan, which blends few of the variates, finds those of which all are blended."""
    ids, numbers = np.arange(count), np.zeros(count, np.uint32)
    blended = _native.VariateKeys(key, key ^ 12345, *part)
    high = _native.labor_variates(blended, ids, numbers) >> np.uint64(32)
    found, offsets, _ = _native.labor_scan(ids, blended, bound, 1, one)
    np.testing.assert_array_equal(offsets, np.flatnonzero(high <= bound))
    np.testing.assert_array_equal(found, high[high <= bound])


@pytest.mark.parametrize("rule", [LaborRule(10), LaborRule(10, exact=False), LaborImportanceRule(10, 1)], ids=str)
def test_long_rows_equal_the_reference(rule):
    """Rows of some hundred edges, repeated sources among them."""
    random = np.random.default_rng(4)
    degrees = np.array([11, 130, 400])
    indptr = np.concatenate([[0], np.cumsum(degrees), np.full(600, degrees.sum())])
    indices, frontier = np.concatenate([random.integers(0, 600, degree) for degree in degrees]), np.arange(3)
    for step in range(1, 8):
        key = BlendedKey(1, 2, step, 8)
        right = reference.sample_hop(indptr, indices, frontier, rule, key)
        assert sample_hop(indptr, indices, frontier, rule, key).positions.tolist() == right.positions.tolist()


def keys_of(draw):
    """Half-way in a window of 4 batches of their own."""
    return BlendedKey(stream_key(5, draw, 0, 0, 7), stream_key(5, draw, 1, 0, 7), 2, 4)


@pytest.mark.slow
@pytest.mark.law
def test_every_subset_is_equally_likely():
    """All 20 3-subsets of 6, 20,000 draws: 1,000 each, so a subset that is 16 % off is 5 sigma away."""
    subsets = {subset: i for i, subset in enumerate(combinations(range(6), 3))}
    counts = np.zeros(len(subsets))
    arrays = torch.tensor([0] + [6] * 6), torch.arange(6), torch.tensor([0])
    for draw in range(20_000):
        counts[subsets[tuple(sample_hop(*arrays, LaborRule(3), keys_of(draw)).positions.tolist())]] += 1
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.law
@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
def test_edges_are_kept_as_often_as_in_any_batch(weighted):
    """By LABOR-* in 4,000 draws: each of 396 edges to 5 sigma."""
    one, rule = layer(weighted=weighted), LaborImportanceRule(5)
    kept = np.zeros((4_000, len(one.indices)), bool)
    for draw in range(len(kept)):
        hop = sample_hop(one.indptr, one.indices, one.frontier, rule, keys_of(draw), weights=one.weights)
        kept[draw, hop.positions.numpy()] = True
    assert_frequencies(kept, edge_probabilities(one, rule))


@pytest.mark.parametrize("rule", [NeighborRule(2), LadiesRule(2)], ids=str)
def test_other_rules_refuse_blended_keys(rule):
    arrays, key = (np.array([0, 3, 3, 3]), np.arange(3), np.array([0])), BlendedKey(0, 1, 1, 2)
    with pytest.raises(InputError, match=r"expected an int as the key of .*, as LABOR alone blends variates"):
        sample_hop(*arrays, rule, key)
    with pytest.raises(InputError, match="LABOR alone blends variates"):
        BlockSampler(*arrays[:2]).sample(arrays[2], [rule], [key])
