"""What ranks that run one plan must agree about, and what is each rank's own."""

from __future__ import annotations

import pytest
import torch
from ranks import run_ranks

import headrace as hr

from plans import graph, items, store_on_disk


def test_ranks_with_different_plans_are_refused():
    def load(comm):
        with pytest.raises(hr.PlanError, match="differs from that of rank"):
            items().sample_neighbor(graph(), [2 + comm.rank]).loader(cooperative=True, comm=comm)

    run_ranks(2, load)


OTHERS = {
    "items": lambda rank: hr.ItemSampler(torch.arange(100).chunk(2)[rank], seed=0),
    "seed": lambda rank: hr.ItemSampler(100, seed=1 + rank),
    "batch_size": lambda rank: hr.ItemSampler(100, batch_size=10 + rank, seed=0),
    "time": lambda rank: hr.ItemSampler(100, seed=0, time=torch.arange(100) + rank),
    "fanouts": lambda rank: items().sample_neighbor(graph(), [2 + rank]),
    "partition": lambda rank: hr.ClusterSampler(hr.Partition.of(torch.arange(200) // (10 + rank)), seed=0),
    "node features": lambda rank: items().fetch_feature(store_on_disk(), node=["x", "y"][: 1 + rank]),
    "stages": lambda rank: items().sample_neighbor(graph(), [2]) if rank else items(),
}


@pytest.mark.parametrize("argument", OTHERS)
def test_ranks_with_shares_of_their_own_are_told(argument):
    def load(comm):
        with pytest.raises(hr.PlanError, match=f"expected the same {argument} on all ranks, got .* on rank 0, .* on"):
            OTHERS[argument](comm.rank).loader(comm=comm)

    run_ranks(2, load)


def test_a_rank_that_cannot_go_on_is_named_to_those_with_shares_of_their_own():
    def load(comm):
        plan = items().sample_neighbor(graph(), [2])
        with pytest.raises(hr.PeerError if comm.rank else hr.HeadraceError, match=r"num_threads"):
            plan.loader(comm=comm, num_threads=comm.rank)

    run_ranks(2, load)


def test_ranks_given_by_hand_are_asked_nothing():
    with items().loader(rank=1, world_size=2) as loader:
        assert len(loader)


def test_a_partition_that_nothing_goes_by_is_refused():
    plan = items().sample_neighbor(graph(), [2])
    with pytest.raises(
        hr.PlanError, match=r"expected .loader\(cooperative=True, partition=...\), got a partition alone"
    ):
        plan.loader(partition=hr.Partition.hash(200, 2), rank=0, world_size=2)
    with pytest.raises(hr.PlanError, match="it has 2 parts, but there is 1 rank"):
        plan.loader(
            cooperative=True,
            partition=hr.Partition.hash(200, 2),
            rank=0,
            world_size=1,
            comm=hr.testing.LocalGroup(1).comms[0],
        )


@pytest.mark.parametrize("other", [hr.Partition.hash(200, 3), hr.Partition.hash(100, 2)])
def test_a_wrong_partition_on_one_rank_is_told_to_all(other):
    def load(comm):
        given = hr.Partition.hash(200, 2) if comm.rank else other
        with pytest.raises(hr.PeerError if comm.rank else hr.HeadraceError, match=r"part|nodes"):
            items().sample_neighbor(graph(), [2]).loader(cooperative=True, comm=comm, partition=given)

    run_ranks(2, load)


def halves(num_nodes: int = 200, first: int = 100) -> hr.Partition:
    return hr.Partition.of((torch.arange(num_nodes) >= first).long())


SHARED_BY_OTHERS = {
    "owners": lambda rank: hr.ItemSampler(100, seed=0, partition=halves(first=30 + rank)).sample_neighbor(graph(), [2]),
    "none": lambda rank: hr.ItemSampler(100, seed=0, partition=halves(first=50) if rank else None).sample_neighbor(
        graph(), [2]
    ),
    "shards": lambda rank: items().sample_neighbor(graph().shard(halves(first=99 + rank), rank), [2]),
}


@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.parametrize("name", SHARED_BY_OTHERS)
def test_ranks_that_go_by_other_owners_are_told(name, cooperative):
    """Seeds that no rank owns by its own partition would be in no batch, others in several."""

    def load(comm):
        with pytest.raises(
            hr.PlanError, match=r"expected the same owners on all ranks, got .* on rank 0, .* on rank 1"
        ):
            SHARED_BY_OTHERS[name](comm.rank).loader(comm=comm, cooperative=cooperative)

    run_ranks(2, load)


def test_items_go_by_a_partition_of_their_graph():
    with pytest.raises(
        hr.InputError, match="to be of the graph's 200 nodes, got one of 150; make it, or its partition"
    ):
        hr.ItemSampler(100, partition=halves(150)).sample_neighbor(graph(), [2]).loader(rank=0, world_size=2)
    with pytest.raises(hr.InputError, match="among the partition's 150 nodes, got node 199, which no rank owns"):
        hr.ItemSampler(200, partition=halves(150))
    for other in (torch.zeros(200), hr.EdgePartition.grid(graph(), 2)):
        with pytest.raises(hr.InputError, match=f"expected an hr.Partition as partition, got {type(other).__name__}"):
            hr.ItemSampler(100, partition=other)


def test_ranks_of_unlike_machines_agree():
    """Caches and windows are as large as a rank's memory allows, devices are its own, and a function may know it."""
    plan = items().sample_neighbor(graph(), [2]).fetch_feature(store_on_disk(), node=["x"], edge=["e"])

    def load(comm):
        machine = hr.Machine(cores=2, memory=(1 + comm.rank) << 20, world_size=2, rank=comm.rank)
        own = plan.transform(lambda batch: batch).copy_to(["cpu", "cpu:0"][comm.rank])
        with own.loader(cooperative=True, comm=comm, machine=machine) as loader:
            return loader.explain()

    first, second = run_ranks(2, load)
    assert "bytes_in_view" in first
    assert first != second


@pytest.mark.parametrize("different", ["owners", "items"])
def test_ranks_with_different_data_are_refused(different):
    def load(comm):
        owners = torch.arange(200) % 2 if comm.rank or different == "items" else torch.arange(200) // 100
        seeds = torch.arange(comm.rank, 200, 2) if different == "items" else 200
        plan = hr.ItemSampler(seeds, batch_size=10, seed=0).sample_neighbor(graph(), [2])
        which = "owners" if different == "owners" else "data of item_sampler"
        with pytest.raises(hr.PlanError, match=rf"differs from that of rank \d in the {which}:"):
            plan.loader(cooperative=True, comm=comm, partition=hr.Partition.of(owners, 2))

    run_ranks(2, load)
