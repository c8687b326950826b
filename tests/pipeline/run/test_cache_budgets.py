"""What is counted of the memory of caches, of ranks of one machine, and of GPUs that need not be there."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
import torch
from ranks import run_processes

import headrace as hr
from headrace.ops import TierSizes
from headrace.ops.memory_promises import promised
from headrace.pipeline.lowered.gpu.fetch_rows import GraphCache
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan import machine
from headrace.pipeline.storage.cached_feature import bytes_per_row
from headrace.pipeline.storage.gpu_cached_feature import GpuCachedFeature
from headrace.pipeline.storage.gpu_cached_feature import bytes_per_row as gpu_bytes_per_row

FREE = 1 << 22  # of a machine that these tests pretend to have


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A file of features larger than the memory of the machine."""
    gc.collect()
    monkeypatch.setattr(machine, "shared_room", lambda: FREE)
    monkeypatch.setattr(machine, "own_room", lambda: None)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    name = tmp_path / "x.npy"
    np.lib.format.open_memmap(name, mode="w+", dtype=np.float32, shape=(1 << 14, 128)).flush()
    return name


def plan_over(path, times: int = 1) -> hr.Plan:
    graph = hr.Graph.from_coo([0], [1], num_nodes=1 << 14)
    plan = hr.ItemSampler(300, batch_size=100).sample_neighbor(graph, [1])
    for number in range(times):
        name = f"x{number}"
        plan = plan.fetch_feature(hr.FeatureStore(node={name: hr.DiskFeature(path)}), node=[name])
    return plan


def caches(loader: hr.Loader) -> list[hr.CachedFeature]:
    stores = [stage.wants.store for stage in loader._rewriting.final.stages if stage.wants is not None]
    return [one for store in stores for one in store.node.values() if isinstance(one, hr.CachedFeature)]


def taken(*loaders: hr.Loader) -> list[int]:
    return [sum(cache.capacity * bytes_per_row(cache, cache.policy) for cache in caches(loader)) for loader in loaders]


def test_what_is_filled_is_not_counted_twice(path):
    """The system counts it as taken by then."""
    mine = hr.CachedFeature(torch.zeros(1 << 12, 64), "lru", rows=1 << 11)
    assert promised().unfilled == promised().num_bytes
    mine.read(torch.arange(1 << 10))
    assert promised().unfilled == promised().num_bytes // 2
    mine.read(torch.arange(1 << 12))
    assert promised().unfilled == 0
    assert promised().unallocated == 0


def test_tiers_count_until_they_are_filled():
    gc.collect()
    x = torch.zeros(100, 4)
    tiers = hr.TieredFeature(x, torch.arange(100), TierSizes(host=10))
    assert promised() == (160, 160, 160)
    tiers.read(torch.arange(3))
    assert promised() == (160, 0, 0)


def test_ranks_of_one_process_divide_the_memory(path):
    ranks = [plan_over(path).loader(lookahead=False, rank=rank, world_size=2) for rank in range(2)]
    assert sum(taken(*ranks)) <= FREE / 4


_STARTED = """
import os, sys
import torch
import headrace as hr
from headrace.pipeline.plan import machine

rank, world_size, meeting, path, free = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
assert "LOCAL_WORLD_SIZE" not in os.environ
machine.shared_room = lambda: int(free)
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
x = hr.FeatureStore(node={"x": hr.DiskFeature(path)})
whole = hr.ItemSampler(10, batch_size=5, seed=1).fetch_feature(x, node=["x"])
loaders = [whole.loader(lookahead=False, **ranks) for ranks in ({}, {"rank": 0, "world_size": 1}, {})]
stores = [stage.wants.store for one in loaders for stage in one._rewriting.final.stages if stage.wants is not None]
print(sum(store.node["x"].capacity for store in stores))
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs gloo")
def test_ranks_without_a_launcher_share_a_budget(path, tmp_path):
    rows = list(map(int, run_processes(_STARTED, 2, tmp_path / "meeting", str(path), str(FREE))))
    assert all(rows)
    assert sum(rows) * 128 * 4 <= FREE / 2


def source_of(stage: hr.ext.Stage) -> GpuCachedFeature | None:
    return None if stage.wants is None else stage.wants.store.node["x"]


def test_caches_on_one_gpu_share_its_memory():
    """Of GPUs that this machine need not have: nothing is put there before the first batch."""
    gc.collect()
    x = hr.FeatureStore(node={"x": torch.zeros(1 << 15, 1 << 9)})
    plan = hr.ItemSampler(10, batch_size=5).copy_to("cuda:2").fetch_feature(x, node=["x"])
    given = []
    kept = []
    for _ in range(3):
        there = hr.Machine(gpus=3, gpu_memory=(1, 1, FREE - sum(given)), gpu_promised=(0, 0, promised(2).num_bytes))
        kept.append(rewrite(plan, there).final)
        (source,) = {id(one): one for stage in kept[-1].stages if (one := source_of(stage)) is not None}.values()
        given.append(source.capacity * gpu_bytes_per_row(source))
        assert promised(2).num_bytes == promised(2).unfilled == sum(given)
    assert given == pytest.approx([FREE / 4, FREE / 8, FREE / 16], rel=0.02)
    assert promised(0).num_bytes == 0
    cache = GraphCache(1000, 2)
    assert promised(2).num_bytes == sum(given) + cache.num_bytes
