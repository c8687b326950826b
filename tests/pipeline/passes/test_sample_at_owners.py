"""sample_at_owners: fires, refuses, cannot be switched off, gives the same result."""

from __future__ import annotations

import pytest
import torch
from ranks import partition, run_ranks

import headrace as hr
from headrace.pipeline.lowered._finders import Here
from headrace.pipeline.lowered.ranks._at_owners import AtOwners
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.machine import Machine

from plans import graph, items


def plan(one: hr.Graph, source: hr.Plan | None = None):
    return (items(batch_size=40) if source is None else source).sample_neighbor(one, [3, 2])


def final(plan, world_size=2):
    switches = {"prefetch": False, "fuse_sampling": False}
    return rewrite(plan, Machine(world_size=world_size), switches).final.stages


def names(stages):
    return [stage.name for stage in stages]


def found_by(stages):
    return [type(stage.finder) for stage in stages if stage.name == "sample_hop"]


def shard(rank: int = 0) -> hr.Graph:
    return graph().shard(partition("hash", 2), rank)


def test_fires_on_hops_behind_the_first_which_finds_its_rows_here():
    stages = final(plan(shard()))
    assert names(stages) == ["item_sampler", *["sample_hop", "compact"] * 2]
    assert found_by(stages) == [Here, AtOwners]
    assert stages[0].partition == partition("hash", 2)


def test_fires_on_all_hops_where_seeds_have_no_owner():
    pairs = hr.ItemSampler(torch.arange(20).reshape(10, 2), batch_size=5)
    assert found_by(final(plan(shard(), pairs))) == [AtOwners, AtOwners]


def test_fires_on_subgraphs_of_trees():
    """Those of the whole graph are found here, those of shards at the owners; one process finds them as it says."""
    assert names(final(items().sample_shadow(graph(), 2, 3)))[-1] == "induce_in_trees"
    *_, hop, compact = final(items().sample_shadow(shard(), 2, 3))
    assert (hop.name, hop.finder, compact.keep) == ("induce_hop", AtOwners(), "square")
    for one in (graph(), shard()):
        assert names(final(items().sample_shadow(one, 2, 3), world_size=1))[-1] == "induce_subgraph"
    assert names(final(plan(graph()).induce_subgraph(graph())))[-1] == "induce_subgraph"


def test_refuses_whole_graphs_and_one_rank():
    assert found_by(final(plan(graph()))) == [Here, Here]
    assert found_by(final(plan(shard()), world_size=1)) == [Here, Here]


def test_refuses_samplers_that_need_more_than_rows():
    with pytest.raises(hr.PlanError, match=r"^sample_ladies cannot sample a graph in shards"):
        final(items().sample_ladies(shard(), [5]))


def test_cannot_be_switched_off():
    with pytest.raises(hr.PlanError, match="sample_at_owners"):
        rewrite(items(), Machine(), {"sample_at_owners": False})


def test_same_result_as_the_whole_graph_from_the_seeds_that_a_rank_owns():
    def work(comm):
        with plan(shard(comm.rank)).loader(comm=comm) as loader:
            return [batch.digest() for batch in loader]

    owned = hr.ItemSampler(
        torch.arange(0, 200, 2), batch_size=40, shuffle=True, seed=11, partition=partition("hash", 2)
    )
    expected = [[batch.digest() for batch in plan(graph(), owned).loader(rank=rank, world_size=2)] for rank in range(2)]
    assert run_ranks(2, work) == expected
