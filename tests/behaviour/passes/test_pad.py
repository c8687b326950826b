"""pad: fires, refuses, cannot be switched off, gives the same result."""

from __future__ import annotations

import pytest
import torch
from explained import names, stages
from random_plans import Counting

import headrace as hr

from plans import graph, items, store


def plan(fanouts=(4, 3)):
    return items().sample_neighbor(graph(), list(fanouts)).fetch_feature(store(), node=["x"], labels="y")


def test_fires():
    assert names(plan().pad()) == ["item_sampler", "sample_fused", "fetch_feature", "pad_batch"]


@pytest.mark.parametrize(
    ("sampled", "shapes"),
    [
        (lambda: items().sample_neighbor(graph(), [4, 3]), 1),
        (lambda: items().sample_neighbor(graph(), [4, -1]), 4),
        (lambda: items().sample_in_subgraph(graph()), 4),
        (lambda: items().sample_saint_node(graph(), 40), 1),
    ],
)
def test_fires_with_more_shapes_where_batches_differ_much(sampled, shapes):
    for padded, number in ((sampled().pad(), shapes), (sampled().pad(shapes=7), 7)):
        assert f"shapes={number}" in stages(padded.explain(machine=hr.Machine()))[-1]


def test_refuses_batches_that_no_other_run_can_make():
    drawn = hr.ext.NodeSource(Counting(), seed=3).sample_neighbor(graph(), [2])
    with pytest.raises(hr.PlanError, match=r"draws an epoch again, got node_source; give the sizes, pad\(num_nodes="):
        drawn.pad().explain(machine=hr.Machine())
    own = hr.ItemSampler(10, items_per_rank=True, batch_size_per_rank=2).sample_neighbor(graph(), [2])
    assert names(own.pad())[-1] == "pad_batch"
    with pytest.raises(hr.PlanError, match="items of each rank's own; give the sizes"):
        own.pad().explain(machine=hr.Machine(world_size=2))
    shard = graph().shard(hr.Partition.hash(graph().num_nodes, 2), 0)
    with pytest.raises(hr.PlanError, match="got one in shards; give the sizes"):
        items().sample_neighbor(shard, [2]).pad().explain(machine=hr.Machine(rank=0, world_size=2))
    for other in (drawn, own):
        assert names(other.pad([9, 9], [9]))[-1] == "pad_batch"


def test_refuses_sizes_of_another_number_of_hops():
    for wrong in (plan(), plan((4, 3, 2))):
        with pytest.raises(hr.PlanError, match=r"pad: expected num_edges of [23] hops"):
            wrong.pad([9, 9], [9]).loader()
    with pytest.raises(hr.PlanError, match="num_edges of 1 hops"):
        items().sample_saint_node(graph(), 40).pad([9, 9, 9], [9, 9]).loader()


def test_refuses_nothing_without_the_stage():
    assert "pad_batch" not in names(plan())


def test_same_result_without_the_padding():
    for batch, padded in zip(plan().loader(), plan().pad().loader(), strict=True):
        assert torch.equal(padded.n_id[padded.node_mask], batch.n_id)
        assert torch.equal(padded.x[padded.node_mask], batch.x)
        assert torch.equal(padded.y[padded.seed_mask], batch.y)
