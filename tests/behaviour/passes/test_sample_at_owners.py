"""sample_at_owners: fires, refuses, cannot be switched off, gives the same result."""

from __future__ import annotations

import pytest
import torch
from explained import stages
from ranks import partition, run_ranks

import headrace as hr

from plans import graph, items


def plan(one: hr.Graph, source: hr.Plan | None = None):
    return (items(batch_size=40) if source is None else source).sample_neighbor(one, [3, 2])


def final(plan, world_size=2):
    switches = {"prefetch": False, "fuse_sampling": False}
    return stages(plan.explain(machine=hr.Machine(world_size=world_size), **switches))


def names(texts):
    return [text.partition("(")[0] for text in texts]


def at_owners(texts):
    """Whether each hop finds its rows at their owners, and not here."""
    return ["finder=AtOwners()" in text for text in texts if text.startswith("sample_hop(")]


def shard(rank: int = 0) -> hr.Graph:
    return graph().shard(partition("hash", 2), rank)


def test_fires_on_hops_behind_the_first_which_finds_its_rows_here():
    texts = final(plan(shard()))
    assert names(texts) == ["item_sampler", *["sample_hop", "compact"] * 2]
    assert at_owners(texts) == [False, True]
    assert "partition=HashPartition(200 nodes, 2 parts)" in texts[0]


def test_fires_on_all_hops_where_seeds_have_no_owner():
    pairs = hr.ItemSampler(torch.arange(20).reshape(10, 2), batch_size=5)
    assert at_owners(final(plan(shard(), pairs))) == [True, True]


def test_fires_on_subgraphs_of_trees():
    """Those of the whole graph are found here, those of shards at the owners; one process finds them as it says."""
    assert names(final(items().sample_shadow(graph(), 2, 3)))[-1] == "induce_in_trees"
    *_, hop, compact = final(items().sample_shadow(shard(), 2, 3))
    assert hop.startswith("induce_hop(")
    assert "finder=AtOwners()" in hop
    assert "keep='square'" in compact
    assert names(final(items().sample_shadow(graph(), 2, 3), world_size=1))[-1] == "induce_subgraph"
    assert names(final(plan(graph()).induce_subgraph(graph())))[-1] == "induce_subgraph"


def test_refuses_whole_graphs_and_one_rank():
    assert at_owners(final(plan(graph()))) == [False, False]
    assert at_owners(final(plan(graph()), world_size=1)) == [False, False]


def test_refuses_samplers_that_need_more_than_rows():
    with pytest.raises(hr.PlanError, match=r"^sample_ladies cannot sample a graph in shards"):
        final(items().sample_ladies(shard(), [5]))


def test_same_result_as_the_whole_graph_from_the_seeds_that_a_rank_owns():
    def work(comm):
        with plan(shard(comm.rank)).loader(comm=comm) as loader:
            return [batch.digest() for batch in loader]

    owned = hr.ItemSampler(
        torch.arange(0, 200, 2), batch_size=40, shuffle=True, seed=11, partition=partition("hash", 2)
    )
    expected = [[batch.digest() for batch in plan(graph(), owned).loader(rank=rank, world_size=2)] for rank in range(2)]
    assert run_ranks(2, work) == expected
