"""What the pass `cooperative` makes of plans where ranks share edges."""

from __future__ import annotations

import pytest
import torch
from explained import names, names_of
from hybrid import CLUSTERS, KINDS
from hypothesis import given, settings
from hypothesis import strategies as st
from random_plans import random_plans
from ranks import run_ranks

import headrace as hr

from plans import NUM_NODES, double, graph, items, store, typed_graph

HOP = ["sample_hop", "compact"]


def grid(num_parts: int = 4) -> hr.EdgePartition:
    return hr.EdgePartition.grid(graph(), num_parts)


def stages(plan: hr.Plan, partition: hr.EdgePartition | None = None, **options: object) -> list[str]:
    def work(comm) -> list[str]:
        partition_ = grid(2) if partition is None else partition
        loader = plan.loader(comm=comm, cooperative=True, partition=partition_, prefetch=False, **options)
        return names_of(loader.explain())

    (first, *others) = run_ranks(2 if partition is None else partition.num_parts, work)
    assert all(one == first for one in others)
    return first


@pytest.mark.parametrize(
    ("source", "hops"),
    [
        (items, ["sample_hop"] * 3),
        (lambda: hr.GlobalBatch(graph(), seed=1), ["induce_hop"]),
        (lambda: hr.ClusterSampler(CLUSTERS, seed=1), ["induce_hop"]),
        (lambda: hr.ClusterSampler(CLUSTERS, boundary=1, seed=1), ["sample_hop", "induce_hop"]),
        (lambda: hr.ClusterSampler(CLUSTERS, boundary=None, seed=1), ["sample_hop"] * 3),
    ],
)
def test_fires(source, hops):
    plan = source().sample_in_subgraph(graph(), num_hops=3).fetch_feature(store(), node=["x"], edge=["e"], labels="y")
    name = plan.stages[0].name
    hops = [one for hop in hops for one in (hop, "compact")]
    assert stages(plan) == [name, "exchange_ids", *hops, "fetch_feature", "fetch_owned"]


def test_masters_fetch_and_no_row_is_exchanged_by_the_loader():
    plan = items().sample_in_subgraph(graph(), num_hops=2).fetch_feature(store(), node=["x"]).transform(double)
    assert stages(plan) == ["item_sampler", "exchange_ids", *HOP * 2, "fetch_owned", "transform"]
    # Behind a transform as well, by a stage that reads what the batch has: rows of nodes that this rank is master of.
    behind = items().sample_in_subgraph(graph()).transform(lambda batch: batch).fetch_feature(store(), node=["x"])
    assert stages(behind) == ["item_sampler", "exchange_ids", *HOP, "transform", "fetch_feature"]

    def right(comm) -> bool:
        with behind.loader(comm=comm, cooperative=True, partition=grid(2)) as loader:
            return all(torch.equal(batch.x, store().node["x"].read(batch.n_id).rows) for batch in loader)

    assert run_ranks(2, right) == [True, True]


def test_explain_shows_who_shares_what():
    plan = hr.ClusterSampler(CLUSTERS, boundary=1, seed=1).sample_in_subgraph(graph(), num_hops=3)

    def explained(comm) -> str:
        return plan.loader(comm=comm, cooperative=True, partition=grid()).explain()

    text = run_ranks(4, explained)[0]
    finder = "finder=SharedEdges(partition=EdgePartition(1,500 edges, 2 x 2 parts))"
    assert f"layer=0, {finder}" in text
    assert f"layer=1, {finder}" in text
    assert "times=2)" in text


def test_a_machine_may_say_who_shares_edges():
    plan = items().sample_in_subgraph(graph())

    def work(comm) -> list[str]:
        machine = hr.Machine(cores=1, partition=grid(2))
        loader = plan.loader(comm=comm, cooperative=True, machine=machine)
        return names_of(loader.explain())

    assert run_ranks(2, work) == [["item_sampler", "exchange_ids", *HOP]] * 2


def test_one_process_is_left_as_it_is():
    plan = items().sample_in_subgraph(graph())
    assert "exchange_ids" not in names(plan, hr.Machine(partition=hr.EdgePartition.grid(graph(), 1)))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (lambda: items().sample_neighbor(graph(), [3]), "sample_neighbor needs all in-edges of a node in one place"),
        (lambda: items().sample_neighbor(graph(), [-1], weight="weight"), "sample_neighbor needs all in-edges"),
        (lambda: items().sample_ladies(graph(), [30]), "sample_ladies needs all in-edges"),
        (lambda: items().sample_in_subgraph(graph(), expand="new"), "use sample_in_subgraph with expand='all'"),
        (lambda: items().sample_in_subgraph(graph()).to_pyg(), "to_pyg cannot convert layers"),
        (lambda: items().sample_in_subgraph(typed_graph()), "expected a graph without types where ranks share edges"),
        (
            lambda: (
                hr.ItemSampler(torch.tensor([[0, 1], [2, 3]]), seed=1)
                .sample_uniform_negative(graph())
                .sample_in_subgraph(graph())
            ),
            r"sample_uniform_negative cannot draw pairs where ranks share edges by .*; use a partition of nodes",
        ),
        (items, "expected a sampler where ranks share edges"),
        (lambda: hr.ItemSampler(10, seed=1).sample_saint_node(graph(), 10), "sample_saint_node needs all in-edges"),
    ],
)
def test_refuses_what_needs_all_edges_of_a_node(plan, words):
    with pytest.raises(hr.PlanError, match=words) as error:
        plan().loader(cooperative=True, comm=hr.testing.LocalGroup(4).comms[0], partition=grid())
    assert "edge_partition.nodes" in str(error.value)


def test_refuses_partitions_of_other_graphs_and_for_other_ranks():
    other = hr.Graph.from_coo(torch.arange(NUM_NODES - 1), torch.arange(1, NUM_NODES), num_nodes=NUM_NODES)
    for partition, words in (
        (hr.EdgePartition.grid(other, 4), "expected a partition of the edges of Graph"),
        (grid(3), "3 parts, but there are 4 ranks"),
    ):
        with pytest.raises(hr.PlanError, match=words):
            items().sample_in_subgraph(graph()).loader(
                cooperative=True, comm=hr.testing.LocalGroup(4).comms[0], partition=partition
            )
    # Another object with the same edges is the same graph.
    again = hr.Graph(graph().indptr.clone(), graph().indices.clone(), graph().edge_permutation)
    assert stages(items().sample_in_subgraph(again)) == ["item_sampler", "exchange_ids", *HOP]


def test_refuses_graphs_in_shards():
    owners = hr.Partition.range(NUM_NODES, 2)

    def work(comm) -> None:
        shard = graph().shard(owners, comm.rank)
        with pytest.raises(hr.PlanError, match="expected whole graphs where ranks share edges, got shards"):
            items().sample_in_subgraph(shard).loader(cooperative=True, comm=comm, partition=grid(2))

    run_ranks(2, work)


def test_ranks_must_agree_about_the_grid():
    nodes = hr.Partition.hash(NUM_NODES, 4)
    made = [hr.EdgePartition.by_source(graph(), nodes), hr.EdgePartition.grid(graph(), nodes)]

    def work(comm) -> None:
        with pytest.raises(hr.PlanError, match="differs from that of rank"):
            items().sample_in_subgraph(graph()).loader(cooperative=True, comm=comm, partition=made[comm.rank % 2])

    run_ranks(4, work)


def test_features_in_shards_are_read_by_their_masters():
    """Masters own the rows, so that nothing is asked of other ranks."""
    nodes = hr.Partition.hash(NUM_NODES, 2)
    x = store().node["x"].read(torch.arange(NUM_NODES)).rows

    def work(comm) -> bool:
        mine = hr.FeatureStore(node={"x": hr.ShardedFeature(x[nodes.owned(comm.rank)], nodes, comm.rank)})
        plan = items().sample_in_subgraph(graph(), num_hops=2).fetch_feature(mine, node=["x"])
        with plan.loader(comm=comm, cooperative=True, partition=hr.EdgePartition.grid(graph(), nodes)) as loader:
            right = all(torch.equal(batch.x, x[batch.n_id]) for batch in loader)
            return right and "rounds" not in loader.stats()["fetch_feature"]

    assert run_ranks(2, work) == [True, True]


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_same_result(data):
    """Random plans: each node and edge of a layer in one rank, features and labels of what is there."""
    plan = data.draw(random_plans(ranks=True, together=True, sampler="in_subgraph"))
    world_size, kind = data.draw(st.integers(2, 4)), data.draw(st.sampled_from(sorted(KINDS)))
    partition = KINDS[kind](graph(), world_size)
    whole = list(plan.build().loader(num_threads=1))

    def work(comm) -> list[hr.MiniBatch]:
        with plan.build().loader(comm=comm, cooperative=True, partition=partition) as loader:
            return list(loader)

    for batch, *mine in zip(whole, *run_ranks(world_size, work), strict=True):
        assert torch.equal(torch.cat([one.seeds for one in mine]), batch.seeds)
        for layer, block in enumerate(batch.blocks):
            found = torch.cat([one.blocks[layer].edge_ids for one in mine]).sort().values
            assert torch.equal(found, block.edge_ids.sort().values)
            nodes = torch.cat([one.exchanges[layer].owned for one in mine]).sort().values
            assert torch.equal(nodes, batch.n_id[: block.num_src].sort().values)
        for one in mine:
            if plan.node:
                assert torch.equal(one.x, store().node["x"].read(one.n_id).rows)
            for block, rows in zip(one.blocks, one.edge.get("e", ()), strict=False):
                assert torch.equal(rows, store().edge["e"].read(block.edge_ids).rows)
            if plan.labels:
                assert torch.equal(one.y, store().node["y"].read(one.seeds).rows)
