"""LABOR-i and LABOR-*: the twin's picks and weights are those of the CPU's kernels, bit for bit, in every schedule."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cuda.backend import stand_in
from headrace.ops import BlockSampler, InputError, LaborImportanceRule, LaborRule, LadiesRule, sample_hop
from headrace.ops.random.dependency import BlendedKey

from cuda_host.stand_in import StandIn
from strategies import csc_graphs, edge_weights, expands, keys, labor_importance_rules, nodes_of

RULES = labor_importance_rules(st.sampled_from([0, 1, 3, 40, -1]))


def assert_same(found, right):
    """Compare hops: arrays by bits, and whether there are any."""
    for one, other in zip(found, right, strict=True):
        if isinstance(other, torch.Tensor):
            assert one.dtype == other.dtype
            assert torch.equal(one, other)
        else:
            assert one == other


def assert_hops_agree(arguments, named, *, seed=0):
    """Sample by the CPU's kernels and by the twin; all of a hop has to be the same."""
    right = sample_hop(*arguments, **named)
    backend = StandIn(seed)
    with stand_in(backend):
        found = sample_hop(*arguments, **named)
    assert any("::solve_rows" in launch for launch in backend.launches) or len(right.indptr) == 1
    assert_same(found, right)


def layer(weighted, seed=0, num_nodes=60, hub=5_000, dtype=torch.float64):
    """Rows of many lengths, one of them long, with parallel edges; half of the weights are 0."""
    random = np.random.default_rng(seed)
    degrees = np.concatenate([[hub], random.integers(0, 40, num_nodes - 1)])
    indptr = torch.from_numpy(np.concatenate([[0], np.cumsum(degrees)]))
    num_edges = int(indptr[-1])
    indices = torch.from_numpy((num_nodes * random.random(num_edges) ** 2).astype(np.int64))
    weights = random.random(num_edges) ** 4 * (random.random(num_edges) < 0.5)
    return indptr, indices, {"weights": torch.from_numpy(weights).to(dtype)} if weighted else {}


@settings(deadline=None)
@given(csc_graphs(), RULES, keys, st.booleans(), st.data())
def test_hops_are_those_of_the_cpu(graph, rule, key, weighted, data):
    frontier = data.draw(nodes_of(graph, unique=False))
    named = {"weights": data.draw(edge_weights(graph))} if weighted else {}
    if data.draw(st.booleans(), label="bounds"):
        named["times"] = torch.arange(graph.num_edges)
        bounds = st.lists(st.integers(-1, graph.num_edges), min_size=len(frontier), max_size=len(frontier))
        named["bounds"] = torch.tensor(data.draw(bounds), dtype=torch.int64)
    if data.draw(st.booleans(), label="blended"):
        key = BlendedKey(key, key ^ 1, 1, 3)
    assert_hops_agree((graph.indptr, graph.indices, frontier, rule, key), named)


@settings(deadline=None)
@given(csc_graphs(min_nodes=1), RULES, keys, expands, st.booleans(), st.booleans(), st.data())
def test_blocks_are_those_of_the_cpu(graph, rule, key, expand, weighted, mixed, data):
    weights = data.draw(edge_weights(graph)) if weighted else None
    seeds = data.draw(nodes_of(graph))
    rules = [rule, LaborRule(2) if mixed else rule]
    arrays = (graph.indptr, graph.indices, graph.edge_ids, weights)
    right = BlockSampler(*arrays).sample(seeds, rules, [key, key ^ 1], expand=expand)
    backend = StandIn()
    with stand_in(backend):
        found = BlockSampler(*arrays).sample(seeds, rules, [key, key ^ 1], expand=expand)
    assert backend.launches or len(seeds) == 0
    assert torch.equal(found.n_id, right.n_id)
    assert found.num_sampled_edges == right.num_sampled_edges
    for hop, other in zip(found.hops, right.hops, strict=True):
        assert_same(hop, other)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
@pytest.mark.parametrize("index", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("rounds", [1, 2, 3, "*"])
@pytest.mark.parametrize("fanout", [0, 1, 3, 40, -1])
def test_a_layer_with_a_hub(fanout, rounds, index, weighted):
    """Sums of several blocks, and one that is not full."""
    indptr, indices, named = layer(weighted, dtype=torch.float32 if rounds == 2 else torch.float64)
    frontier = torch.arange(50)
    assert_hops_agree((indptr, indices.to(index), frontier, LaborImportanceRule(fanout, rounds), 5), named)


@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
def test_many_rounds(weighted):
    """Rounds that change nothing any more are left out."""
    indptr, indices, named = layer(weighted, hub=60, num_nodes=12)
    for rounds in (7, 8, 9, 30, 300):
        rule = LaborImportanceRule(3, rounds)
        assert_hops_agree((indptr, indices, torch.arange(12), rule, 5), named)


@pytest.mark.parametrize("hub", [255, 256, 257, 511, 513, 8_191, 8_192, 8_193, 8_500])
def test_rows_around_the_blocks_of_sums(hub):
    for weighted in (False, True):
        indptr, indices, named = layer(weighted, hub=hub, num_nodes=5_000)
        rule = LaborImportanceRule(100, 1)
        assert_hops_agree((indptr, indices, torch.arange(3), rule, 5), named)


@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
def test_schedules_change_nothing(weighted):
    indptr, indices, named = layer(weighted, hub=600)
    for seed in range(20):
        rule = LaborImportanceRule(4, "*" if seed % 2 else 2)
        assert_hops_agree((indptr, indices, torch.arange(9), rule, 3), named, seed=seed)


def test_sources_that_are_no_nodes_are_refused():
    indptr, indices = torch.tensor([0, 2, 4, 4]), torch.tensor([0, 1, 17, 2])
    with stand_in(StandIn()), pytest.raises(InputError, match="indices hold 17, which is not a node id"):
        sample_hop(indptr, indices, torch.arange(2), LaborImportanceRule(1), 0)


def test_slots_are_refused():
    indptr, indices = torch.tensor([0, 2, 2]), torch.tensor([0, 1])
    slots = torch.tensor([0])
    with stand_in(StandIn()), pytest.raises(InputError, match="without slots for a layer-wise rule"):
        sample_hop(indptr, indices, torch.tensor([0]), LaborImportanceRule(1), 0, slots=slots)


def test_ladies_has_no_twin():
    """Work goes to the CPU's kernels."""
    indptr, indices, named = layer(weighted=True, hub=50)
    backend = StandIn()
    arguments = (indptr, indices, torch.arange(9), LadiesRule(5), 3)
    right = sample_hop(*arguments, **named)
    with stand_in(backend):
        found = sample_hop(*arguments, **named)
    assert torch.equal(found.positions, right.positions)
    assert not backend.launches
