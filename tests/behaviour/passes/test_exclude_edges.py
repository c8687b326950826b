"""exclude_edges: fires, refuses, cannot be switched off, gives the same result."""

from __future__ import annotations

import pytest
import torch
from explained import names, stages
from without import without_edges

import headrace as hr

from plans import PLANS, graph, items, pairs

ALONE = {"fuse_sampling": False, "prefetch": False}


def hops(plan):
    text = plan.explain(machine=hr.Machine(), **ALONE)
    return [stage for stage in stages(text) if stage.startswith("sample_hop")]


def test_fires_on_every_hop_behind():
    plan = pairs().exclude_seed_edges(reverse=True).sample_uniform_negative(graph()).sample_neighbor(graph(), [3, -1])
    assert ["exclude=SeedEdges(reverse=True" in hop for hop in hops(plan)] == [True, True]
    assert names(plan) == ["item_sampler", "sample_uniform_negative", "sample_fused"]


def test_refuses_nothing_without_the_stage():
    assert not any("exclude=" in hop for hop in hops(items().sample_neighbor(graph(), [3])))


@pytest.mark.parametrize("name", ["pinsage", "saint_node", "saint_walk"])
def test_refuses_samplers_that_cannot(name):
    source, *others = PLANS[name]().stages
    plan = hr.Plan([source, *pairs().exclude_seed_edges().stages[1:], *others])
    with pytest.raises(hr.PlanError, match=f"sample_{name.partition('_')[0]} cannot leave out edges"):
        plan.explain(machine=hr.Machine())


def test_refuses_edges_turned_around_without_their_reverses():
    plan = pairs().exclude_seed_edges().sample_neighbor(graph(), [2]).make_bidirectional()
    with pytest.raises(hr.PlanError, match=r"make_bidirectional: expected exclude_seed_edges\(reverse=True\)"):
        plan.loader()
    plan = pairs().exclude_seed_edges(reverse=True).sample_neighbor(graph(), [-1]).make_bidirectional()
    for batch in plan.loader():
        found = set(map(tuple, batch.n_id[batch.blocks[0].edge_index].t().tolist()))
        assert not found & set(map(tuple, batch.seeds.tolist()))


def test_same_result_as_on_a_graph_without_the_edges():
    """Batch by batch, as each leaves out others."""
    plan = pairs().exclude_seed_edges(reverse=True).sample_layer_neighbor(graph(), [4, 3], weight="weight")
    without = list(pairs().loader())
    for index, batch in enumerate(plan.loader()):
        less, ids = without_edges(graph(), without[index].seeds, reverse=True)
        alone = list(pairs().sample_layer_neighbor(less, [4, 3], weight="weight").loader())[index]
        assert torch.equal(batch.n_id, alone.n_id)
        for block, other in zip(batch.blocks, alone.blocks, strict=True):
            assert torch.equal(block.indptr, other.indptr)
            assert torch.equal(block.indices, other.indices)
            assert torch.equal(block.weight, other.weight)
            assert torch.equal(block.edge_ids, ids[other.edge_ids])
