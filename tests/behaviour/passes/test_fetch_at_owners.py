"""fetch_at_owners: fires, refuses, cannot be switched off, gives the same result."""

from __future__ import annotations

import torch
from explained import names
from ranks import partition, run_ranks

import headrace as hr

from plans import NUM_NODES, graph, items, store

X = store().node["x"].read(torch.arange(NUM_NODES)).rows


def in_shards(rank: int, **others: hr.ShardedFeature) -> hr.FeatureStore:
    x = hr.ShardedFeature.of(X, partition("hash", 2), rank)
    return hr.FeatureStore(node={"x": x, "y": store().node["y"], **others})


def plan(features: hr.FeatureStore, partition: hr.Partition | None = None, **named: object) -> hr.Plan:
    return items(batch_size=40, partition=partition).sample_neighbor(graph(), [3]).fetch_feature(features, **named)


def final_names(plan, world_size=2):
    switches = {"prefetch": False, "fuse_sampling": False, "fuse_exchange": False}
    return names(plan, hr.Machine(world_size=world_size), **switches)[3:]


ROUTED = ["exchange_ids", "fetch_owned", "exchange_rows", "return_ids"]


def test_fires_on_features_in_shards():
    assert final_names(plan(in_shards(0), node=["x"])) == ROUTED


def test_fires_and_leaves_other_features_to_a_stage_of_their_own():
    assert final_names(plan(in_shards(0), node=["x", "y"])) == [*ROUTED, "fetch_feature"]


def test_fires_once_for_each_way_to_lie():
    z = hr.ShardedFeature.of(X, partition("range", 2), 0)
    assert final_names(plan(in_shards(0, z=z), node=["x", "z"])) == ROUTED * 2


def test_refuses_whole_features_and_one_rank():
    assert final_names(plan(store(), node=["x"])) == ["fetch_feature"]


def test_same_result_as_whole_features():
    def work(comm):
        with plan(in_shards(comm.rank), node=["x"], labels="y").loader(comm=comm) as loader:
            return [batch.digest() for batch in loader]

    whole = plan(store(), partition("hash", 2), node=["x"], labels="y")
    expected = [[batch.digest() for batch in whole.loader(rank=rank, world_size=2)] for rank in range(2)]
    assert run_ranks(2, work) == expected
