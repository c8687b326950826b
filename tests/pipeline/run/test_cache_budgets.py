"""The caches of several loaders share one budget of memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

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


def test_each_loader_gets_half_of_what_is_left_and_all_together_half_of_the_memory(path):
    before = promised().num_bytes
    assert before == 0
    loaders = [plan_over(path).loader(lookahead=False) for _ in range(8)]
    given = taken(*loaders)
    assert given[0] == pytest.approx(FREE / 4, rel=0.01)
    assert given[1] == pytest.approx(FREE / 8, rel=0.01)
    assert given[2] == pytest.approx(FREE / 16, rel=0.02)
    assert sum(given) <= FREE / 2
    assert promised().num_bytes == sum(given)
    assert f"have {given[0]:,} bytes of CPU memory" in loaders[1].explain()
    assert "bytes of CPU memory" not in loaders[0].explain()


def test_memory_comes_back_with_the_end_of_a_loader(path):
    first = plan_over(path).loader(lookahead=False)
    expected = taken(first)
    assert taken(plan_over(path).loader(lookahead=False)) < expected
    for _ in first:
        pass
    del first
    gc.collect()
    assert taken(plan_over(path).loader(lookahead=False)) == expected


def test_a_closed_loader_gives_back_its_share_and_takes_it_again(path):
    given, kept = [], []
    for options in ({}, {"lookahead": False}, {"lookahead": False}):
        with plan_over(path).loader(**options) as loader:
            first = [batch.node["x0"] for batch in loader]
            given.append(promised().num_bytes)
        kept.append(loader)
        assert promised() == (0, 0, 0)
    assert given[0] == given[1] == given[2] > 0
    again = [batch.node["x0"] for batch in loader]
    assert promised().num_bytes == given[2]
    assert all(map(torch.equal, first, again))
    loader.close()
    loader.close()
    assert promised().num_bytes == 0


def test_a_cache_of_ones_own_counts(path):
    mine = hr.CachedFeature(torch.zeros(1 << 12, 64), "lru", bytes=FREE // 4)
    assert taken(plan_over(path).loader(lookahead=False))[0] == pytest.approx(FREE / 8, rel=0.01)
    del mine
    assert taken(plan_over(path).loader(lookahead=False))[0] == pytest.approx(FREE / 4, rel=0.01)


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


def test_fetches_of_one_plan_share_a_budget(path):
    loader = plan_over(path, times=3).loader(lookahead=False)
    assert len(caches(loader)) == 3
    assert sum(taken(loader)) <= FREE / 4


def in_view(loader: hr.Loader) -> list[int]:
    return [stage.bytes_in_view for stage in loader._rewriting.final.stages if stage.name == "fetch_ahead"]


def test_windows_have_the_memory_of_caches_that_do_not_hold_all_rows(path):
    one = plan_over(path).loader()
    assert not caches(one)
    assert in_view(one) == [FREE // 4 + FREE // 8]
    # What is given to windows is not given again.
    assert in_view(plan_over(path).loader()) == [pytest.approx(FREE // 8 + FREE // 16, rel=0.02)]
    del one
    gc.collect()
    assert sum(in_view(plan_over(path, times=3).loader())) == pytest.approx(FREE // 4 + FREE // 8, rel=0.01)


def test_a_machine_that_is_given_is_as_it_says(path):
    mine = hr.CachedFeature(torch.zeros(1 << 12, 64), "lru", bytes=FREE // 4)
    loaders = [plan_over(path).loader(lookahead=False, machine=hr.Machine(cores=1, memory=FREE)) for _ in range(3)]
    assert len(set(taken(*loaders))) == 1
    assert taken(loaders[0])[0] == pytest.approx(FREE / 4, rel=0.01)
    assert mine.capacity


def test_ranks_of_one_process_divide_the_memory(path):
    ranks = [plan_over(path).loader(lookahead=False, rank=rank, world_size=2) for rank in range(2)]
    assert sum(taken(*ranks)) <= FREE / 4


_SPAWNED = """
import os, sys, tempfile
import numpy as np, torch
import headrace as hr
from headrace.pipeline.plan import machine

def main(rank, path, results):
    os.environ.pop("LOCAL_WORLD_SIZE", None)
    machine.shared_room = lambda: {free}
    torch.distributed.init_process_group("gloo", init_method=f"file://{{path}}.store", rank=rank, world_size=2)
    x = hr.FeatureStore(node={{"x": hr.DiskFeature(path)}})
    whole = hr.ItemSampler(10, batch_size=5, seed=1).fetch_feature(x, node=["x"])
    loaders = [whole.loader(lookahead=False, **ranks) for ranks in ({{}}, {{"rank": 0, "world_size": 1}}, {{}})]
    stores = [stage.wants.store for one in loaders for stage in one._rewriting.final.stages if stage.wants is not None]
    results[rank] = sum(store.node["x"].capacity for store in stores)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()

if __name__ == "__main__":
    results = torch.zeros(2, dtype=torch.int64).share_memory_()
    torch.multiprocessing.spawn(main, (sys.argv[1], results), nprocs=2)
    print(*results.tolist())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs gloo")
def test_spawned_ranks_without_a_launcher_share_a_budget(path, tmp_path):
    (tmp_path / "spawned.py").write_text(_SPAWNED.format(free=FREE))
    environment = {name: value for name, value in os.environ.items() if name != "LOCAL_WORLD_SIZE"}
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "spawned.py"), str(path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**environment, "OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    rows = list(map(int, ran.stdout.split()))
    assert all(rows)
    assert sum(rows) * 128 * 4 <= FREE / 2


_LIMITED = """
import resource, sys
import headrace as hr
from headrace.ops.memory_limit import own_room
room = own_room()
resource.setrlimit(resource.RLIMIT_DATA, (int(open("/proc/self/status").read().split("VmData:")[1].split()[0]) * 1024
    + (256 << 20), resource.RLIM_INFINITY))
store = hr.FeatureStore(node={"x": hr.DiskFeature(sys.argv[1])})
plan = hr.ItemSampler(100, batch_size=10).fetch_feature(store, node=["x"])
loaders = [plan.loader(lookahead=False) for _ in range(6)]
for loader in loaders:
    for batch in loader:
        pass
stores = [stage.wants.store for one in loaders for stage in one._rewriting.final.stages if stage.wants is not None]
print(sum(getattr(store.node["x"], "capacity", 0) for store in stores))
"""


@pytest.mark.slow
@pytest.mark.uninstrumented
@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_ulimit_of_data_is_kept(tmp_path):
    path = tmp_path / "x.npy"
    np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(1 << 20, 256)).flush()
    ran = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"},
    )
    assert ran.returncode == 0, ran.stderr
    assert 0 < int(ran.stdout) * 1024 <= 128 << 20


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
