"""Cooperative batches: what the ranks hold together is the batch of one process, vertex by vertex and edge by edge."""

from __future__ import annotations

import pytest
import torch
from ranks import assert_same_union, cooperative_batches, partition, run_ranks

import headrace as hr
from headrace.pipeline.plan import stages_of

from plans import PLANS, graph, items, store

WORLD_SIZES = [1, 2, 3, 4, 8]
SAMPLERS = {
    "neighbor": lambda plan: plan.sample_neighbor(graph(), [4, 3, 2]),
    "labor": lambda plan: plan.sample_layer_neighbor(graph(), [4, 3, 2]),
    "weighted": lambda plan: plan.sample_neighbor(graph(), [4, 3, 2], weight="weight"),
    "full": lambda plan: plan.sample_neighbor(graph(), [-1, -1]),
    "replace": lambda plan: plan.sample_neighbor(graph(), [4, 3], replace=True),
    "labor_dependent": lambda plan: plan.sample_layer_neighbor(graph(), [4, 3], layer_dependency=True, exact=False),
    "pinsage": lambda plan: plan.sample_pinsage(graph(), 3, num_walks=5, walk_length=2, num_layers=2),
    "in_subgraph": lambda plan: plan.sample_in_subgraph(graph()),
}
SEEDS = {
    "nodes": lambda: items(batch_size=40),
    "pairs": lambda: hr.ItemSampler(torch.arange(60).reshape(30, 2) % 37, batch_size=7, shuffle=True, seed=3),
    "repeated": lambda: hr.ItemSampler(torch.arange(90) % 13, batch_size=20, seed=3),
    "few": lambda: hr.ItemSampler(torch.tensor([3, 7, 5]), batch_size=2, seed=3),
}


@pytest.mark.parametrize("kind", ["hash", "range", "metis", "table"])
@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_union_is_the_batch_of_one_process(sampler, seeds, kind):
    plan = SAMPLERS[sampler](SEEDS[seeds]())
    whole = list(plan.loader())
    for world_size in WORLD_SIZES[1:]:
        owners = partition(kind, world_size)
        shares = cooperative_batches(plan, world_size, partition=owners)
        for index, batch in enumerate(whole):
            assert_same_union(batch, [mine[index] for mine in shares], owners)


@pytest.mark.parametrize("switches", [{"fuse_sampling": False}, {"prefetch": False}])
def test_other_passes_do_not_change_the_shares(switches):
    plan = SAMPLERS["labor"](SEEDS["nodes"]()).fetch_feature(store(), node=["x"], labels="y")
    with_them, without = (cooperative_batches(plan, 3, **options) for options in ({}, switches))
    for mine, other in zip(with_them, without, strict=True):
        assert [batch.digest() for batch in mine] == [batch.digest() for batch in other]


def test_features_arrive_at_the_sources_and_labels_at_the_seeds():
    plan = SAMPLERS["neighbor"](SEEDS["nodes"]()).fetch_feature(store(), node=["x"], edge=["e"], labels="y")
    for batches in cooperative_batches(plan, 4):
        for batch in batches:
            assert torch.equal(batch.x, store().node["x"].read(batch.n_id))
            assert torch.equal(batch.n_id, batch.exchanges[0].wanted)
            assert torch.equal(batch.y, store().node["y"].read(batch.seeds))
            for block, rows in zip(batch.blocks, batch.edge["e"], strict=True):
                assert torch.equal(rows, store().edge["e"].read(block.edge_ids))


def test_each_row_is_fetched_once():
    plan = SAMPLERS["neighbor"](SEEDS["nodes"]()).fetch_feature(store(), node=["x"])

    def fetched(comm):
        with plan.loader(cooperative=True, comm=comm) as loader:
            for _ in loader:
                pass
            return loader.stats()["fetch_feature"]["rows"]

    assert sum(run_ranks(3, fetched)) == sum(len(batch.n_id) for batch in plan.loader())


def test_one_rank_communicates_nothing():
    plan = PLANS["neighbor"]()
    (batches,) = cooperative_batches(plan, 1)
    assert [batch.digest() for batch in batches] == [batch.digest() for batch in plan.loader()]
    assert not any(batch.exchanges for batch in batches)


@pytest.mark.parametrize("fanout", [1, 5, -1])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_rounds_depend_on_the_number_of_layers_alone(fanout, num_layers):
    plan = items(batch_size=40).sample_neighbor(graph(), [fanout] * num_layers).fetch_feature(store(), node=["x"])

    def counted(comm):
        with plan.loader(cooperative=True, comm=comm) as loader:
            num_batches = len(list(loader))
            return loader.stats().total("rounds") / num_batches, loader.stats().total("collectives") / num_batches

    # Ids of the seeds and of each layer, then one round of rows; a round of ids is two collectives, counts and ids.
    assert run_ranks(2, counted) == [(num_layers + 2, 2 * (num_layers + 1) + 1)] * 2


@pytest.mark.parametrize(
    "plan",
    [PLANS["neighbor_new"](), PLANS["ladies"](), PLANS["labor_star"](), PLANS["saint_node"]()],
    ids=["new", "ladies", "labor_star", "saint"],
)
def test_what_depends_on_the_whole_frontier_is_refused(plan):
    with pytest.raises(hr.PlanError, match="depends on the whole frontier"):
        plan.loader(cooperative=True, comm=hr.LocalGroup(2).comms[0])


def test_partitions_that_do_not_fit_are_refused():
    plan, comm = PLANS["neighbor"](), hr.LocalGroup(2).comms[0]
    with pytest.raises(hr.PlanError, match="199 vertices, the graph of sample_fused 200"):
        plan.loader(cooperative=True, comm=comm, partition=hr.Partition.hash(199, 2))

    def with_three_parts(comm):
        with pytest.raises(hr.PlanError, match="3 parts, but there are 2 ranks"):
            plan.loader(cooperative=True, comm=comm, partition=hr.Partition.hash(200, 3))

    run_ranks(2, with_three_parts)


def test_without_a_process_group_the_error_says_what_to_do():
    with pytest.raises(hr.PlanError, match="init_process_group"):
        PLANS["neighbor"]().loader(cooperative=True, rank=0, world_size=2)


def test_ranks_with_different_plans_are_refused():
    def load(comm):
        with pytest.raises(hr.PlanError, match="is not that of ranks"):
            items().sample_neighbor(graph(), [2 + comm.rank]).loader(cooperative=True, comm=comm)

    run_ranks(2, load)


def test_several_workers_become_one():
    plan = items().sample_neighbor(graph(), [2]).prefetch(workers=4)

    def workers(comm):
        loader = plan.loader(cooperative=True, comm=comm)
        return [stage.workers for stage in stages_of(loader._rewriting.final) if stage.verb == "prefetch"]

    assert run_ranks(2, workers) == [[1], [1]]
