"""Shards of more parts than there are ranks: what is wrong is named, and the command that cuts them again."""

from __future__ import annotations

import pytest
import torch

import headrace as hr
from headrace.pipeline.storage import load_shards

AGAIN = r"`headrace partition FOLDER OUT --parts 2`"


@pytest.fixture
def folder(tmp_path):
    ids = torch.arange(40)
    store = hr.FeatureStore(node={"x": torch.rand(40, 2)})
    graph, partition = hr.Graph.from_coo(ids, ids.roll(1)), hr.Partition.hash(40, 4)
    hr.write_shards(tmp_path / "shards", graph, partition, store, progress=False)
    return tmp_path / "shards"


def test_ranks_of_a_job(folder, monkeypatch):
    monkeypatch.setattr(load_shards, "rank_of_process", lambda rank, world_size: (1, 2))
    with pytest.raises(hr.InputError, match=rf"^load_shards: .*as ranks, 2, in {folder}, got 4; .*{AGAIN}"):
        hr.load_shards(folder)
    assert hr.load_shards(folder, part=3).part == 3
    monkeypatch.setattr(load_shards, "rank_of_process", lambda rank, world_size: (3, 4))
    assert hr.load_shards(folder).part == 3
