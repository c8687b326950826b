"""Frontiers whose elements have slots and bounds: what a picker may see of a row, and under which stream."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import (
    InputError,
    LaborImportanceRule,
    LaborRule,
    LadiesRule,
    LatestRule,
    NeighborRule,
    _native,
    reference,
    sample_hop,
)

from samples import assert_same, numpy_of
from strategies import csc_graphs, edge_weights, keys, nodes_of, rules, thread_counts

pytestmark = pytest.mark.twins

MOMENTS = st.integers(-3, 3)
PER_DESTINATION = rules().filter(lambda rule: rule.per_destination)
LAYER_WISE = [LaborImportanceRule(2), LadiesRule(3), LadiesRule(3, poisson=True)]


def timed(graph, data):
    """Draw times that ascend within each row."""
    num_edges = len(graph.indices)
    times = np.array(data.draw(st.lists(MOMENTS, min_size=num_edges, max_size=num_edges)), np.int64)
    for start, stop in zip(graph.indptr[:-1], graph.indptr[1:], strict=True):
        times[start:stop].sort()
    return times


def per_element(frontier, data, values=MOMENTS):
    return np.array(data.draw(st.lists(values, min_size=len(frontier), max_size=len(frontier))), np.int64)


@given(
    csc_graphs(),
    PER_DESTINATION,
    keys,
    thread_counts,
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
    st.data(),
)
def test_slots_and_bounds_equal_the_reference(graph, rule, key, num_threads, given_ones, data):
    weighted, in_slots, bounded, windowed = given_ones
    if not weighted:
        rule = data.draw(st.sampled_from([rule, LatestRule(rule.fanout)]))
    frontier = data.draw(nodes_of(graph, unique=False))
    weights = data.draw(edge_weights(graph)) if weighted else None
    more = {"slots": per_element(frontier, data) if in_slots else None}
    if bounded:
        more |= {"times": timed(graph, data), "bounds": per_element(frontier, data)}
        more |= {"lows": per_element(frontier, data)} if windowed else {}
    hop = sample_hop(graph.indptr, graph.indices, frontier, rule, key, weights=weights, num_threads=num_threads, **more)
    oracle = reference.sample_hop(
        graph.indptr.numpy(), graph.indices.numpy(), frontier.numpy(), rule, key, weights=numpy_of(weights), **more
    )
    for field in ("indptr", "neighbors", "positions", "weights"):
        assert_same(getattr(hop, field), getattr(oracle, field))


@pytest.mark.slow
@pytest.mark.combinations(2)
@pytest.mark.parametrize("rule", LAYER_WISE, ids=str)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@given(graph=csc_graphs(), key=keys, data=st.data())
def test_layer_wise_rules_see_what_the_bounds_leave(rule, weighted, graph, key, data):
    """As on a graph without the later edges."""
    frontier = data.draw(nodes_of(graph))
    weights = data.draw(edge_weights(graph)) if weighted else None
    times, bounds = timed(graph, data), per_element(frontier, data)
    bound_of = np.full(len(graph.indptr) - 1, 9)
    bound_of[frontier.numpy()] = bounds
    degrees = np.diff(graph.indptr.numpy())
    kept = np.flatnonzero(times <= np.repeat(bound_of, degrees))
    starts = np.searchsorted(kept, graph.indptr.numpy())
    hop = sample_hop(graph.indptr, graph.indices, frontier, rule, key, weights=weights, times=times, bounds=bounds)
    cut = sample_hop(
        torch.from_numpy(starts),
        graph.indices[kept],
        frontier,
        rule,
        key,
        weights=None if weights is None else weights[kept],
    )
    assert_same(hop.indptr, cut.indptr)
    assert_same(hop.neighbors, cut.neighbors)
    assert_same(hop.positions, kept[cut.positions.numpy()])
    assert_same(hop.weights, cut.weights)


@pytest.mark.parametrize("rule", [NeighborRule(3), LaborRule(3), NeighborRule(3, replace=True)], ids=str)
def test_a_node_picks_independently_in_each_slot(rule):
    """Of 10 in-edges 3, in 2,000 slots: each edge in 600 of them, within five standard deviations of 20.5."""
    indptr, indices = np.array([0, 10, *[10] * 10]), np.arange(1, 11)
    frontier, slots = np.zeros(2_000, np.int64), np.arange(2_000)
    hop = sample_hop(indptr, indices, frontier, rule, 5, slots=slots)
    counts = np.bincount(hop.positions.numpy(), minlength=10)
    assert np.abs(counts - 600).max() < 5 * 20.5
    sets = {tuple(sorted(hop.positions[i : i + 3].tolist())) for i in range(0, 6_000, 3)}
    assert len(sets) >= 115  # of 120 without replacement, each of which comes 17 times


def test_a_slot_is_not_the_stream_without_slots():
    frontier = np.zeros(1, np.int64)
    indptr, indices = np.array([0, 1_000, *[1_000] * 1_000]), np.arange(1, 1_001)
    plain = sample_hop(indptr, indices, frontier, NeighborRule(20), 1)
    slotted = sample_hop(indptr, indices, frontier, NeighborRule(20), 1, slots=frontier)
    assert plain.positions.tolist() != slotted.positions.tolist()


def hop_of(*, rule=None, **more):
    frontier = np.zeros(2, np.int64)
    return sample_hop(np.array([0, 2, 2]), np.array([0, 1]), frontier, rule or NeighborRule(1), 0, **more)


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"slots": np.zeros(1, np.int64)}, InputError, r"slots to have one entry per element of the frontier \(2\)"),
        ({"bounds": np.zeros(2, np.int64)}, InputError, "expected the times of edges for a frontier with bounds"),
        ({"times": np.zeros(3, np.int64)}, InputError, r"times to have one entry per edge \(2\), got 3"),
        (
            {"times": np.zeros(2, np.int64), "bounds": np.zeros(3, np.int64)},
            InputError,
            r"bounds to have one entry per element of the frontier \(2\), got 3",
        ),
        ({"lows": np.zeros(2, np.int64)}, InputError, "expected bounds for a frontier with lower bounds"),
        (
            {"times": np.zeros(2, np.int64), "bounds": np.zeros(2, np.int64), "lows": np.zeros(1, np.int64)},
            InputError,
            r"lows to have one entry per element of the frontier \(2\), got 1",
        ),
        (
            {"weights": np.zeros(2), "rule": LatestRule(1)},
            InputError,
            r"expected no weights for LatestRule\(fanout=1\), which does not draw",
        ),
        ({"slots": np.zeros(2, np.int64), "rule": LadiesRule(1)}, InputError, "expected a frontier without slots"),
    ],
    ids=["slots", "no times", "times", "bounds", "no bounds", "lower bounds", "weights", "layer-wise"],
)
def test_refusals(more, error, message):
    with pytest.raises(error, match=message):
        hop_of(**more)


def test_a_rule_by_weight_needs_weights():
    rule = _native.Rule("neighbor", 1, by_weight=True)
    arrays = np.array([0, 2, 2]), np.array([0, 1]), np.zeros(1, np.int64)
    with pytest.raises(InputError, match="expected weights for a rule that picks by weight"):
        _native.sample_hop(*arrays, [rule], 0, None, 1)


@pytest.mark.parametrize("kind", ["neighbor", "ladies"])
def test_a_rule_that_does_not_read_weights_is_not_given_any(kind):
    rule = _native.Rule(kind, -1)
    arrays = np.array([0, 2, 2]), np.array([0, 1]), np.zeros(1, np.int64)
    _, _, positions, _ = _native.sample_hop(*arrays, [rule], 0, np.array([0.0, 1.0]), 1)
    assert positions.tolist() == [0, 1]
