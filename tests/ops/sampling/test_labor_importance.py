"""LABOR-i and LABOR-*: the equations they solve, and the traps on the way to them."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layer_parts import PartReducer

from headrace.ops import (
    BlockSampler,
    InputError,
    LaborImportanceRule,
    LaborRule,
    LadiesRule,
    _native,
    labor_importance,
    reference,
    sample_hop,
)
from headrace.ops.gpu import device_of
from headrace.ops.sampling.rules import MOST_ROUNDS

from layers import DEGREES, edge_probabilities, layer, solve, weights_of
from strategies import csc_graphs, edge_weights, keys, labor_importance_rules, nodes_of, thread_counts

pytestmark = pytest.mark.twins

ROUNDS = [1, 2, "*"]
FANOUTS = st.integers(-1, 8)


def closed_form(inverse, excess, square):
    """The scale by sorting: the v largest pi are at 1, for the smallest v with c * pi <= 1 for all the others."""
    order = np.argsort(inverse, kind="stable")
    for v in range(len(order)):
        rest = order[v:]
        c = (square[rest] * inverse[rest]).sum() / (excess + square[rest].sum())
        if c <= inverse[rest[0]] * (1 + 1e-12):
            return c
    raise AssertionError


# --- the equations ----------------------------------------------------------------------------------------------------


@given(csc_graphs(), labor_importance_rules(FANOUTS), thread_counts, st.booleans(), st.data())
def test_solution_equals_reference(graph, rule, num_threads, weighted, data):
    frontier = data.draw(nodes_of(graph, unique=False))
    weights = data.draw(edge_weights(graph)) if weighted else None
    got = labor_importance(graph.indptr, graph.indices, frontier, rule, weights=weights, num_threads=num_threads)
    rows = reference.layer.layer_edges(
        graph.indptr.numpy(), graph.indices.numpy(), frontier.numpy(), None if weights is None else weights.numpy()
    )
    oracle = reference.layer.labor_importance(rows, rule, weighted=weighted)
    assert got.candidates.tolist() == list(oracle.inverse)
    assert got.probabilities.tolist() == [1.0 / value for value in oracle.inverse.values()]
    assert got.scales.tolist() == oracle.scales
    assert got.expected_sizes == oracle.expected_sizes


@given(csc_graphs(min_nodes=1), labor_importance_rules(st.integers(1, 8)), st.booleans(), st.data())
def test_scales_solve_the_variance_equation(graph, rule, weighted, data):
    """Sum P^2 / p - sum P^2 = 1 / k - 1 / d, by another closed form, and never fewer than k expected picks."""
    frontier = data.draw(nodes_of(graph))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    weights = torch.from_numpy(random.random(graph.num_edges) + 1e-3) if weighted else None
    solution = labor_importance(graph.indptr, graph.indices, frontier, rule, weights=weights)
    pi = dict(zip(solution.candidates.tolist(), solution.probabilities.tolist(), strict=True))
    for s, c in zip(frontier.tolist(), solution.scales.tolist(), strict=True):
        edges = slice(int(graph.indptr[s]), int(graph.indptr[s + 1]))
        p = np.array([pi[t] for t in graph.indices[edges].tolist()])
        share = np.ones(len(p)) if weights is None else weights[edges].numpy()
        share = share / share.sum()
        if len(p) <= rule.fanout:
            assert c == np.inf
            assert (p == 1).all()
            continue
        excess = 1 / rule.fanout - 1 / len(p)
        kept = np.minimum(1, c * p)
        assert (share**2 / kept - share**2).sum() == pytest.approx(excess, rel=1e-9)
        assert c == pytest.approx(closed_form(1 / p, excess, share**2), rel=1e-9)
        if not weighted:
            assert kept.sum() >= rule.fanout * (1 - 1e-9)


@given(csc_graphs(), labor_importance_rules(FANOUTS), st.booleans(), st.data())
def test_every_round_lowers_the_expected_size(graph, rule, weighted, data):
    """E|T| never grows; it falls by more than 0.01 % in every round of LABOR-* but the last."""
    frontier = data.draw(nodes_of(graph, unique=False))
    weights = data.draw(edge_weights(graph)) if weighted else None
    sizes = labor_importance(graph.indptr, graph.indices, frontier, rule, weights=weights).expected_sizes
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(sizes))
    if rule.importance == "*":
        assert all(after < (1 - 1e-4) * before for before, after in pairwise(sizes[:-1]))
        assert sizes[-1] >= (1 - 1e-4) * sizes[-2]
    else:
        assert len(sizes) == rule.importance + 1


@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
def test_rounds_are_worth_it_and_start_at_labor_0(weighted):
    one = layer(weighted=weighted)
    sizes = solve(one, LaborImportanceRule(5)).expected_sizes
    assert sizes[-1] < 0.9 * sizes[0]
    assert solve(one, LaborImportanceRule(5, 1)).expected_sizes == sizes[:2]
    if not weighted:
        wanted: dict[int, float] = {}
        for t, row in zip(one.indices.tolist(), one.rows, strict=True):
            wanted[t] = max(wanted.get(t, 0), min(1, 5 / DEGREES[row]))
        assert sizes[0] == pytest.approx(sum(wanted.values()), rel=1e-12)
        # LABOR-1: pi_t is the largest k / d_s among its destinations.
        first = solve(one, LaborImportanceRule(5, 1))
        assert first.probabilities.tolist() == pytest.approx([wanted[t] for t in first.candidates.tolist()], rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
def test_rounds_that_would_change_nothing_are_left_out_to_the_bit(weighted):
    """A reducer of a single part is asked in every round: those that it sees and those left out give the same."""
    one = layer(weighted=weighted)
    rule = LaborImportanceRule(5, MOST_ROUNDS)
    got = solve(one, rule)
    reducer = PartReducer(0, threading.Barrier(1), [None])
    every = labor_importance(one.indptr, one.indices, one.frontier, rule, weights=one.weights, reducer=reducer)
    assert reducer.calls.count("largest") == MOST_ROUNDS + 1
    assert torch.equal(got.probabilities, every.probabilities)
    assert torch.equal(got.scales, every.scales)
    assert got.expected_sizes == every.expected_sizes
    assert len(got.expected_sizes) == MOST_ROUNDS + 1
    earlier = solve(one, LaborImportanceRule(5, MOST_ROUNDS - 1))
    assert torch.equal(got.scales, earlier.scales), "the rounds left out are there in this layer"


@pytest.mark.parametrize("rounds", [0, MOST_ROUNDS + 1, 10**9])
def test_rounds_have_a_limit(rounds):
    """A call into the kernel cannot be interrupted."""
    with pytest.raises(InputError, match=rf'at least 1 and at most 1000, or "\*", which stops by itself, got {rounds}'):
        LaborImportanceRule(5, rounds)
    one = layer(weighted=False)
    arguments = (one.indptr.numpy(), one.indices.numpy(), one.frontier.numpy(), 5, rounds, None, 1, None)
    with pytest.raises(InputError, match=f"at least 1 and at most 1000, or -1 for until converged, got {rounds}"):
        _native.labor_importance(*arguments)


def test_threads_do_not_change_a_bit_of_a_large_layer():
    """20,000 destinations, a hub of 30,000 in-edges: many tasks, and sums of more than one block."""
    if device_of(torch.arange(1)) is not None:
        pytest.skip("threads are of the CPU's kernels, and a stand-in for a GPU takes minutes for so many rows")
    random = np.random.default_rng(2)
    dst = np.concatenate([random.integers(0, 20_000, 120_000), np.full(30_000, 77)])
    src = (20_000 * random.random(len(dst)) ** 3).astype(np.int64)
    indptr, indices, _ = reference.coo_to_csc(src, dst, 20_000)
    weights = torch.from_numpy(random.random(len(dst)))
    frontier = torch.arange(20_000)
    for given_weights in (None, weights):
        arguments = (torch.from_numpy(indptr), torch.from_numpy(indices), frontier)
        one, *others = [
            sample_hop(*arguments, LaborImportanceRule(3), 5, weights=given_weights, num_threads=n) for n in (1, 2, 4)
        ]
        solved = [
            labor_importance(*arguments, LaborImportanceRule(3), weights=given_weights, num_threads=n) for n in (1, 3)
        ]
        assert torch.equal(solved[0].scales, solved[1].scales)
        assert solved[0].expected_sizes == solved[1].expected_sizes
        for other in others:
            for name in ("indptr", "neighbors", "positions", "weights"):
                assert torch.equal(getattr(one, name), getattr(other, name))


# --- traps ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.combinations(3)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_membership_is_decided_by_global_ids_alone(rounds):
    """Edge t -> s is kept iff r_t <= min(1, c_s pi_t), r_t of the *global* id: not of edge, thread or local id."""
    one, rule = layer(weighted=False), LaborImportanceRule(5, rounds)
    probabilities = edge_probabilities(one, rule)
    for key in range(50):
        hop = sample_hop(one.indptr, one.indices, one.frontier, rule, key, num_threads=1 + key % 3)
        r = np.array([reference.unit_interval(reference.labor_variate(key, t)) for t in one.indices.tolist()])
        assert np.flatnonzero(r <= probabilities).tolist() == hop.positions.tolist()
        fused = BlockSampler(one.indptr, one.indices).sample(one.frontier, [rule], [key])
        edge_ids = fused.hops[0].edge_ids
        assert edge_ids is not None
        assert torch.equal(edge_ids, hop.positions)


@given(csc_graphs(min_nodes=2), keys, st.integers(1, 6), st.sampled_from(ROUNDS))
def test_equal_neighbourhoods_agree_and_smaller_scales_keep_subsets(graph, key, fanout, rounds):
    """Destinations 0 and 1 have the same in-neighbours; 2 has these and more; all of one hop."""
    half = graph.indices[: graph.num_edges // 2]
    indices = torch.cat([half, half, graph.indices])
    stops = torch.tensor([len(half), 2 * len(half), len(indices)])
    num_nodes = max(3, graph.num_nodes)
    indptr = torch.cat([torch.tensor([0]), stops, stops[-1:].expand(num_nodes - 3)])
    rule, frontier = LaborImportanceRule(fanout, rounds), torch.arange(3)
    hop = sample_hop(indptr, indices, frontier, rule, key)
    parts = hop.positions.split(hop.indptr.diff().tolist())
    first, second, third = (set((part - start).tolist()) for part, start in zip(parts, indptr[:3], strict=True))
    assert first == second
    scales = labor_importance(indptr, indices, frontier, rule).scales
    if scales[2] <= scales[0]:
        assert third & set(range(len(half))) <= first


def test_layers_that_share_a_key_share_picks():
    """Layer dependency: the same frontier under the same key keeps its neighbourhood; under another key it does not."""
    one, rule = layer(weighted=False), LaborImportanceRule(5)
    again = [sample_hop(one.indptr, one.indices, one.frontier, rule, key).positions for key in (4, 4, 5)]
    assert torch.equal(again[0], again[1])
    assert not torch.equal(again[0], again[2])


@pytest.mark.law
def test_small_neighbourhoods_are_kept_whole():
    """Where d <= k no edge may be missed and no weight may be off: not 0.9999, but 1."""
    one, rule = layer(weighted=False), LaborImportanceRule(13)
    small = one.rows <= 4  # in-degrees 2 to 13
    assert (edge_probabilities(one, rule)[small] == 1).all()
    # A stand-in for a GPU takes a hundred times as long.
    for draw in range(2_000 if device_of(torch.arange(1)) is None else 100):
        hop = one.hop(rule, draw)
        assert torch.equal(hop.positions[: small.sum()], torch.arange(int(small.sum())))
        assert (weights_of(hop)[: small.sum()] == 1).all()


@given(csc_graphs(), labor_importance_rules(FANOUTS), keys, st.data())
def test_weights_average_to_one(graph, rule, key, data):
    """So a plain mean of a constant is that constant: no second division by a sum of weights. No weight is NaN."""
    frontier, weights = data.draw(nodes_of(graph)), data.draw(st.one_of(st.none(), edge_weights(graph)))
    hop = sample_hop(graph.indptr, graph.indices, frontier, rule, key, weights=weights)
    assert bool(torch.isfinite(weights_of(hop)).all())
    for part in weights_of(hop).split(hop.indptr.diff().tolist()):
        if len(part):
            assert float(part.mean()) == pytest.approx(1, abs=1e-6)
    if weights is not None:
        assert bool((weights[hop.positions] > 0).all())


def test_rows_without_weight_pick_nothing():
    indptr, indices = torch.tensor([0, 3, 6, 6]), torch.tensor([0, 1, 2, 0, 1, 2])
    weights = torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0, 2.0])
    for rule in (LaborImportanceRule(1), LaborImportanceRule(-1, 1)):
        hop = sample_hop(indptr, indices, torch.arange(3), rule, 1, weights=weights)
        assert hop.indptr[1] == 0
        assert 1 not in hop.neighbors
    assert labor_importance(indptr, indices, torch.arange(3), LaborImportanceRule(1), weights=weights).scales[0] > 0


@pytest.mark.slow
def test_weights_of_either_width_decide_alike():
    """Weights are widened before anything is computed: no ties by the rounding of float32 quotients."""
    one = layer(weighted=True)
    assert one.weights is not None
    narrow = one.weights.float()
    for key in range(20):
        hops = [
            sample_hop(one.indptr, one.indices, one.frontier, LaborImportanceRule(5), key, weights=weights)
            for weights in (narrow, narrow.double())
        ]
        assert torch.equal(hops[0].positions, hops[1].positions)
        assert torch.equal(weights_of(hops[0]), weights_of(hops[1]))


@pytest.mark.slow
def test_extreme_weights_stay_finite():
    """Quotients and squares that leave the range of doubles are kept inside it."""
    indptr, indices = torch.tensor([0, 4] + [8] * 8), torch.tensor([2, 3, 4, 5, 5, 6, 7, 8])
    weights = torch.tensor([1e308, 1e-308, 5e-324, 1.0, 5e-324, 1e-320, 1e-310, 1e-300], dtype=torch.float64)
    for key in range(200):
        hop = sample_hop(indptr, indices, torch.arange(2), LaborImportanceRule(2), key, weights=weights)
        assert bool(torch.isfinite(weights_of(hop)).all())


def test_sources_are_numbered_alike_in_small_and_large_graphs():
    """Few edges in a large graph go through a hash table, many in a small one through a table of all nodes."""
    one, rule = layer(weighted=False), LaborImportanceRule(5)
    large = torch.cat([one.indptr, one.indptr[-1:].expand(100_000)])
    for key in range(5):
        small_hop = sample_hop(one.indptr, one.indices, one.frontier, rule, key)
        large_hop = sample_hop(large, one.indices, one.frontier, rule, key)
        assert torch.equal(small_hop.positions, large_hop.positions)
        assert torch.equal(weights_of(small_hop), weights_of(large_hop))


# --- bad input --------------------------------------------------------------------------------------------------------

NOT_A_ROUND: Any = 1.0
NOT_THIS_RULE: Any = LaborRule(3)
NOBODY = torch.tensor([], dtype=torch.int64)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LaborImportanceRule(-2), "LaborImportanceRule: expected fanout to be an int of at least 0, or -1"),
        (
            lambda: LaborImportanceRule(3, 0),
            'importance to be an int of at least 1 and at most 1000, or "\\*".* got 0',
        ),
        (lambda: LaborImportanceRule(3, NOT_A_ROUND), "got 1.0"),
        (
            lambda: labor_importance(torch.tensor([0]), NOBODY, NOBODY, NOT_THIS_RULE),
            "rule to be a LaborImportanceRule",
        ),
    ],
)
def test_refuses_bad_arguments(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("bad", [-1, 3, 2**31 - 1])
@pytest.mark.parametrize("rule", [LaborImportanceRule(1), LadiesRule(1)], ids=str)
def test_damaged_graphs_never_read_foreign_memory(bad, rule):
    indptr, indices = torch.tensor([0, 2, 4, 4]), torch.tensor([0, 1, bad, 2], dtype=torch.int32)
    with pytest.raises(InputError, match=f"indices hold {bad}, which is not a node id"):
        sample_hop(indptr, indices, torch.arange(2), rule, 0)
    with pytest.raises(InputError, match="do not bound a row"):
        sample_hop(torch.tensor([0, 5, 4, 4]), indices, torch.arange(2), rule, 0)


@pytest.mark.parametrize(("fanout", "rounds", "message"), [(-2, 1, "fanout"), (3, 0, "rounds"), (3, -2, "rounds")])
def test_the_compiled_module_refuses_what_is_no_rule(fanout, rounds, message):
    """0 rounds would do one, and other negative fan-outs would be huge ones."""
    graph = np.array([0, 1]), np.array([0])
    with pytest.raises(InputError, match=f"{message}.* at least .*-1"):
        _native.labor_importance(*graph, np.array([0]), fanout, rounds, None, 1)
    with pytest.raises(InputError, match=f"{message}.* at least .*-1"):
        _native.Rule("labor_importance", fanout, rounds)
    with pytest.raises(InputError, match="fanout or size"):
        _native.draw_ladies(*graph, np.array([0]), -2, poisson=False, key=0, weights=None, num_threads=1)
