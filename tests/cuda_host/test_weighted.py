"""Picks by edge weight: the twins' are those of the CPU's kernels, bit for bit and under every schedule."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cuda.backend import stand_in
from headrace.cuda.hop import GpuGraph
from headrace.cuda.pick_weighted import sums_of_graph
from headrace.ops import BlockSampler, LaborRule, NeighborRule, sample_hop
from headrace.ops.random.dependency import BlendedKey

from cuda_host.stand_in import StandIn
from strategies import csc_graphs, edge_weights, expands, keys, nodes_of

FANOUTS = st.sampled_from([0, 1, 3, 40, -1])
RULES = st.one_of(st.builds(NeighborRule, FANOUTS, st.booleans()), st.builds(LaborRule, FANOUTS, st.booleans()))
#: What a rule's picks come from.
KERNEL_OF = {NeighborRule: ("pick_weighted", "pick_positive"), LaborRule: ("pick_labor_weighted",)}


@contextmanager
def twins(*kernels, seed=0):
    """Let the twins run, and see that one of the kernels did."""
    backend = StandIn(seed)
    with stand_in(backend):
        yield
    assert any(f"::{kernel}" in launch for kernel in kernels for launch in backend.launches)


def assert_same(found, right):
    """Compare hops: arrays by bits, and whether there are any."""
    for one, other in zip(found, right, strict=True):
        if isinstance(other, torch.Tensor):
            assert one.dtype == other.dtype
            assert torch.equal(one, other)
        else:
            assert one == other


def hub(num_edges=5_000, dtype=torch.float64, num_sources=3_000):
    """A row of many edges, some of them parallel, behind one that does not end where a sum begins."""
    random = np.random.default_rng(num_edges)
    indptr = torch.tensor([0, 3, 3 + num_edges, 3 + num_edges] + [3 + num_edges] * num_sources)
    indices = torch.from_numpy(random.integers(0, num_sources, 3 + num_edges))
    weights = random.random(3 + num_edges) ** 8 * (random.random(3 + num_edges) < 0.5)
    return indptr, indices, torch.from_numpy(weights).to(dtype)


@settings(deadline=None)
@given(csc_graphs(), RULES, keys, st.data())
def test_hops_are_those_of_the_cpu(graph, rule, key, data):
    frontier, weights = data.draw(nodes_of(graph, unique=False)), data.draw(edge_weights(graph))
    random = np.random.default_rng(key % 1000)
    named = {"weights": weights}
    if data.draw(st.booleans(), label="slots"):
        named["slots"] = torch.from_numpy(random.integers(0, 3, len(frontier)))
    if data.draw(st.booleans(), label="bounds"):
        named["times"] = torch.arange(graph.num_edges)
        named["bounds"] = torch.from_numpy(random.integers(-1, graph.num_edges + 1, len(frontier)))
    if isinstance(rule, LaborRule) and data.draw(st.booleans(), label="blended"):
        key = BlendedKey(key, key ^ 1, 1, 3)
    right = sample_hop(graph.indptr, graph.indices, frontier, rule, key, **named)
    if len(frontier) == 0:
        with stand_in(StandIn()):
            found = sample_hop(graph.indptr, graph.indices, frontier, rule, key, **named)
    else:
        with twins(*KERNEL_OF[type(rule)]):
            found = sample_hop(graph.indptr, graph.indices, frontier, rule, key, **named)
    assert_same(found, right)


@settings(deadline=None)
@given(csc_graphs(min_nodes=1), st.lists(RULES, min_size=1, max_size=3), keys, expands, st.booleans(), st.data())
def test_blocks_are_those_of_the_cpu(graph, rules, key, expand, edge_ids, data):
    weights = data.draw(edge_weights(graph))
    seeds = data.draw(nodes_of(graph))
    arrays = (graph.indptr, graph.indices, graph.edge_ids, weights)
    hop_keys = [key ^ hop for hop in range(len(rules))]
    right = BlockSampler(*arrays).sample(seeds, rules, hop_keys, expand=expand, edge_ids=edge_ids)
    with stand_in(StandIn()):
        sampler = BlockSampler(*arrays)
        for _ in range(2):  # with sums that are made, and with those that are there
            found = sampler.sample(seeds, rules, hop_keys, expand=expand, edge_ids=edge_ids)
            assert torch.equal(found.n_id, right.n_id)
            assert found.num_sampled_nodes == right.num_sampled_nodes
            assert found.num_sampled_edges == right.num_sampled_edges
            for hop, other in zip(found.hops, right.hops, strict=True):
                assert_same(hop, other)


@pytest.mark.combinations(5)
@pytest.mark.parametrize("num_edges", range(1, 10))
def test_sums_have_room_for_the_last_one(num_edges):
    """Those before every fourth edge; where there is no room the last one is written to memory of others."""
    weights = torch.arange(1.0, num_edges + 1, dtype=torch.float64)
    graph = GpuGraph(torch.tensor([0, num_edges]), torch.zeros(num_edges, dtype=torch.int64), weights=weights)
    with twins("sum_rows"):
        sums = sums_of_graph(graph, torch.device("cpu"))
    expected = weights.cumsum(0)[3:-1:4]
    assert torch.equal(sums[1 : 1 + len(expected)], expected)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("fanout", [0, 1, 3, 40, 1_000, 2_400, 3_500, 4_900, -1])
@pytest.mark.parametrize("index", [torch.int32, torch.int64], ids=str)
def test_a_hub(fanout, dtype, index):
    indptr, indices, weights = hub(dtype=dtype)
    frontier = torch.tensor([1, 0, 2, 1])
    rules = [
        NeighborRule(fanout),
        NeighborRule(fanout, replace=True),
        LaborRule(fanout),
        LaborRule(fanout, exact=False),
    ]
    for rule in rules:
        arguments = (indptr, indices.to(index), frontier, rule, 7)
        right = sample_hop(*arguments, weights=weights)
        with twins(*KERNEL_OF[type(rule)]):
            assert_same(sample_hop(*arguments, weights=weights), right)


@pytest.mark.parametrize("rule", [NeighborRule(12), NeighborRule(90), NeighborRule(40, replace=True)], ids=str)
def test_few_edges_have_nearly_all_the_weight(rule):
    """Draws find few edges, and the others race."""
    indptr, indices, weights = hub(130)
    weights[5:7] = 1e9
    right = sample_hop(indptr, indices, torch.tensor([0, 1]), rule, 3, weights=weights)
    with twins("pick_weighted"):
        assert_same(sample_hop(indptr, indices, torch.tensor([0, 1]), rule, 3, weights=weights), right)


@pytest.mark.parametrize(
    ("kernels", "rule"),
    [
        (("sum_rows", "pick_weighted<", "move_picks"), NeighborRule(12)),
        (("pick_positive",), NeighborRule(-1)),
        (("sum_rows", "pick_weighted_replacement"), NeighborRule(50, replace=True)),
        (("pick_labor_weighted",), LaborRule(12)),
        (("pick_labor_weighted",), LaborRule(12, exact=False)),
    ],
    ids=str,
)
def test_schedules_change_nothing(kernels, rule):
    indptr, indices, weights = hub(300, num_sources=60)
    frontier = torch.tensor([1, 0, 1, 2, 0, 1])
    right = sample_hop(indptr, indices, frontier, rule, 11, weights=weights)
    for seed in range(20):
        for kernel in kernels[:1]:
            with twins(kernel, seed=seed):
                assert_same(sample_hop(indptr, indices, frontier, rule, 11, weights=weights), right)
    backend = StandIn()
    with stand_in(backend):
        sample_hop(indptr, indices, frontier, rule, 11, weights=weights)
    assert all(any(f"::{kernel}" in launch for launch in backend.launches) for kernel in kernels)


def test_too_many_draws_are_refused():
    """A stream has 2**33 variates."""
    indptr, indices, weights = hub(10)
    with stand_in(StandIn()), pytest.raises(Exception, match="node 1 needs more variates than its stream has"):
        sample_hop(indptr, indices, torch.tensor([2, 1]), NeighborRule(2**33 + 1, replace=True), 0, weights=weights)
