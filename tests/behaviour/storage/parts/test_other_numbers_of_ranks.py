"""Shards of more parts than there are ranks: what is wrong is named, and the command that cuts them again."""

from __future__ import annotations

import pytest
import torch
from part_files import write

import headrace as hr

AGAIN = r"`headrace partition FOLDER OUT --parts 2`"


@pytest.fixture
def folder(tmp_path):
    ids = torch.arange(40)
    store = hr.FeatureStore(node={"x": torch.rand(40, 2)})
    graph, partition = hr.Graph.from_coo(ids, ids.roll(1)), hr.Partition.hash(40, 4)
    write(tmp_path / "parts", graph, partition, store)
    return tmp_path / "parts"


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_part_that_was_named(folder, cooperative):
    """The graph is at fault, not a partition of items, which nobody gave."""
    shards = hr.open_dataset(folder, rank=0)
    plan = hr.ItemSampler(40).sample_neighbor(shards.graph, [2]).fetch_feature(shards.store, node=["x"])
    words = rf"^sample_neighbor: the shard of the graph has 4 parts, but there are 2 ranks; .*{AGAIN}"
    partition = {"partition": hr.Partition.hash(40, 2)} if cooperative else {}
    with pytest.raises(hr.PlanError, match=words):
        plan.loader(comm=hr.testing.LocalGroup(2).comms[0], cooperative=cooperative, **partition)
    with pytest.raises(hr.PlanError, match=r"4 parts, but there is 1 rank; start 4 ranks, or use the whole graph"):
        plan.loader()
