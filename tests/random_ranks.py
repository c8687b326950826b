"""The batches of each rank, of plans and of features in shards that were drawn at random."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hypothesis import strategies as st
from random_plans import digest
from ranks import run_ranks

import headrace as hr

from plans import NUM_NODES, store


def each_rank(plans: Callable[[int], hr.Plan], world_size: int, **options: object) -> list[list[object]]:
    """The batches of each rank."""

    def work(comm: hr.Comm) -> list[object]:
        with plans(comm.rank).loader(comm=comm, **options) as loader:
            return list(loader)

    return run_ranks(world_size, work)


def in_shards(owners: hr.Partition, rank: int, data: st.DataObject) -> hr.FeatureStore:
    """The features, those of nodes in shards, with or without copies of some rows."""
    cached = torch.arange(rank, NUM_NODES, 5) if data.draw(st.booleans(), label=f"copies of rank {rank}") else None
    x = hr.ShardedFeature.of(store().node["x"].read(torch.arange(NUM_NODES)).rows, owners, rank, cached=cached)
    return hr.FeatureStore(node={"x": x, "y": store().node["y"]}, edge={"e": store().edge["e"]})


def digests_of_ranks(ranks: list[list[object]]) -> list[list[str]]:
    """The digests of the batches of each rank."""
    return [[digest(batch) for batch in batches] for batches in ranks]
