"""What no GPU samples is sampled in CPU memory, and the plan says so."""

from __future__ import annotations

import pytest
from described_plans import copied_first
from explained import names, names_of, one_line

import headrace as hr

from plans import NUM_NODES, PLANS, graph, items, store

SAMPLERS = {
    "ladies": lambda plan: plan.sample_ladies(graph(), [8, 8]),
    "pinsage": lambda plan: plan.sample_pinsage(graph(), num_layers=1, num_walks=3, walk_length=2, num_neighbors=2),
    "saint": lambda plan: plan.sample_saint_edge(graph(), 5),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_fires_for_samplers_without_a_kernel(name):
    text = SAMPLERS[name](items().copy_to("cuda")).explain(machine=hr.Machine(gpus=1))
    assert names_of(text)[-1] == "copy_to"
    assert "no kernel on a GPU: copy_to behind" in one_line(text)


def test_refuses_hops_with_a_kernel():
    plan = items().copy_to("cuda").sample_layer_neighbor(graph(), [3, 3]).fetch_feature(store(), node=["x"])
    assert names(plan, hr.Machine(gpus=1)) == ["item_sampler", "copy_to", "sample_fused", "fetch_to"]


@pytest.mark.parametrize("device", ["meta", "mps"])
def test_other_devices_have_no_kernels(device):
    plan = items().copy_to(device).sample_neighbor(graph(), [3])
    assert names(plan, hr.Machine()) == ["item_sampler", "sample_fused", "copy_to"]


def test_graphs_in_an_order_of_their_own():
    scores = hr.scores.out_degree(graph())
    reordered = hr.reorder(graph(), scores=scores)
    plan = items().copy_to("cuda").sample_neighbor(reordered.graph, [3])
    assert names(plan, hr.Machine(gpus=1))[-1] == "copy_to"


RANKS = hr.Machine(gpus=1, world_size=2)


@pytest.mark.parametrize("fuse", [True, False])
def test_ranks_with_shares_of_a_batch_sample_as_one_process_does(fuse):
    plan = items().copy_to("cuda").sample_neighbor(graph(), [3, 3]).fetch_feature(store(), node=["x"])
    assert names(plan, RANKS, fuse_sampling=fuse) == names(plan, hr.Machine(gpus=1), fuse_sampling=fuse)
    assert names(plan, RANKS)[1] == "copy_to"


def test_ranks_that_exchange_ids_on_gpus_sample_there():
    machine = hr.Machine(gpus=1, world_size=2, gpu_channel=True)
    plan = items().copy_to("cuda").sample_neighbor(graph(), [3, 3])
    shard = graph().shard(hr.Partition.hash(NUM_NODES, 2), 0)
    in_shards = items().copy_to("cuda").sample_neighbor(shard, [3, 3])
    assert names(plan, machine, cooperative=True)[1] == names(in_shards, machine)[1] == "copy_to"


def test_ranks_that_exchange_ids_begin_pairs_and_trees_on_the_cpu():
    machine = hr.Machine(gpus=1, world_size=2, gpu_channel=True)
    links = names(copied_first(PLANS["link_negatives"]()), machine, cooperative=True)
    trees = names(copied_first(PLANS["disjoint"]()), machine, cooperative=True)
    assert links[1:3] == ["sample_uniform_negative", "copy_to"]
    assert trees[1:3] == ["plant_trees_together", "copy_to"]
    shard = graph().shard(hr.Partition.hash(NUM_NODES, 2), 0)
    in_shards = items().copy_to("cuda").sample_neighbor(shard, [3], disjoint=True)
    assert names(in_shards, machine)[1:3] == ["plant_trees", "copy_to"]
