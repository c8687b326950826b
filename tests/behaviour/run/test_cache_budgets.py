"""The caches of several loaders share one budget of memory."""

from __future__ import annotations

import dataclasses
import gc
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from explained import stages

import headrace as hr

from copies import run_program

FREE = 1 << 22  # of a machine that these tests pretend to have


def promised() -> int:
    """Bytes of memory that are assigned to caches of this process."""
    return hr.Machine.detect().promised


def machine() -> hr.Machine:
    """The machine, as if it had little memory, of which no cache has filled its share yet."""
    return dataclasses.replace(hr.Machine.detect(), memory=FREE - promised())


@pytest.fixture
def path(tmp_path):
    """A file of features larger than the memory of the machine."""
    gc.collect()
    assert promised() == 0
    name = tmp_path / "x.npy"
    np.lib.format.open_memmap(name, mode="w+", dtype=np.float32, shape=(1 << 14, 128)).flush()
    return name


def loader_over(path, times: int = 1, **options: object) -> hr.Loader:
    graph = hr.Graph.from_coo([0], [1], num_nodes=1 << 14)
    plan = hr.ItemSampler(300, batch_size=100).sample_neighbor(graph, [1])
    for number in range(times):
        name = f"x{number}"
        plan = plan.fetch_feature(hr.FeatureStore(node={name: hr.DiskFeature(path)}), node=[name])
    return plan.loader(**{"machine": machine(), "lookahead": False, **options})


def with_bytes(path, times: int = 1, **options: object) -> tuple[hr.Loader, int]:
    """A loader, and the bytes that its caches have."""
    before = promised()
    loader = loader_over(path, times, **options)
    return loader, promised() - before


def num_caches(loader: hr.Loader) -> int:
    """The fetches that read a cache, each of a store of its own."""
    text = loader.explain()
    stores = [re.search(r"store#\d+", stage).group() for stage in stages(text) if stage.startswith("fetch_")]
    cached = re.findall(r"^(store#\d+): FeatureStore\(node={'\w+': CachedFeature", text, re.MULTILINE)
    return sum(store in cached for store in stores)


def test_each_loader_gets_half_of_what_is_left_and_all_together_half_of_the_memory(path):
    loaders, sizes = zip(*(with_bytes(path) for _ in range(8)), strict=True)
    assert sizes[0] == pytest.approx(FREE / 4, rel=0.01)
    assert sizes[1] == pytest.approx(FREE / 8, rel=0.01)
    assert sizes[2] == pytest.approx(FREE / 16, rel=0.02)
    assert 0 < sum(sizes) == promised() <= FREE / 2
    assert num_caches(loaders[0]) == 1
    assert f"have {sizes[0]:,} bytes of CPU memory" in loaders[1].explain()
    assert "bytes of CPU memory" not in loaders[0].explain()


@pytest.mark.slow
def test_memory_comes_back_with_the_end_of_a_loader(path):
    first, expected = with_bytes(path)
    assert with_bytes(path)[1] < expected
    for _ in first:
        pass
    del first
    gc.collect()
    assert with_bytes(path)[1] == expected


def test_a_closed_loader_gives_back_its_share_and_takes_it_again(path):
    sizes, loaders = [], []
    for options in ({"lookahead": True}, {}, {}):
        with loader_over(path, **options) as loader:
            first = [batch.node["x0"] for batch in loader]
            sizes.append(promised())
        loaders.append(loader)
        assert promised() == 0
    assert sizes[0] == sizes[1] == sizes[2] > 0
    again = [batch.node["x0"] for batch in loader]
    assert promised() == sizes[2]
    assert all(map(torch.equal, first, again))
    loader.close()
    loader.close()
    assert promised() == 0


def test_a_cache_of_ones_own_counts(path):
    mine = hr.CachedFeature(torch.zeros(1 << 12, 64), "lru", bytes=FREE // 4)
    assert with_bytes(path)[1] == pytest.approx(FREE / 8, rel=0.01)
    del mine
    assert with_bytes(path)[1] == pytest.approx(FREE / 4, rel=0.01)


def test_fetches_of_one_plan_share_a_budget(path):
    loader, size = with_bytes(path, times=3)
    assert num_caches(loader) == 3
    assert 0 < size <= FREE / 4


def in_view(loader: hr.Loader) -> list[int]:
    return [int(size) for size in re.findall(r"bytes_in_view=(\d+)", "\n".join(stages(loader.explain())))]


@pytest.mark.slow
def test_windows_have_the_memory_of_caches_that_do_not_hold_all_rows(path):
    loader = loader_over(path, lookahead=True)
    assert num_caches(loader) == 0
    assert in_view(loader) == [FREE // 4 + FREE // 8]
    # What windows have is not given again.
    assert in_view(loader_over(path, lookahead=True)) == [pytest.approx(FREE // 8 + FREE // 16, rel=0.02)]
    del loader
    gc.collect()
    of_three = in_view(loader_over(path, times=3, lookahead=True))
    assert sum(of_three) == pytest.approx(FREE // 4 + FREE // 8, rel=0.01)


def test_a_machine_that_is_given_is_as_it_says(path):
    mine = hr.CachedFeature(torch.zeros(1 << 12, 64), "lru", bytes=FREE // 4)
    loaders, sizes = zip(*(with_bytes(path, machine=hr.Machine(cores=1, memory=FREE)) for _ in range(3)), strict=True)
    assert len(loaders) == 3
    assert sizes[0] == sizes[1] == sizes[2] == pytest.approx(FREE / 4, rel=0.01)
    assert mine.capacity


_LIMITED = """
import re, resource, sys
import headrace as hr
from explained import one_line
hr.Machine.detect()
resource.setrlimit(resource.RLIMIT_DATA, (int(open("/proc/self/status").read().split("VmData:")[1].split()[0]) * 1024
    + (256 << 20), resource.RLIM_INFINITY))
store = hr.FeatureStore(node={"x": hr.DiskFeature(sys.argv[1])})
plan = hr.ItemSampler(100, batch_size=10).fetch_feature(store, node=["x"])
loaders = [plan.loader(lookahead=False) for _ in range(6)]
for loader in loaders:
    for batch in loader:
        pass
print(sum(int(rows) for one in loaders for rows in re.findall(r"CachedFeature.*?rows=(\\d+)", one_line(one.explain()))))
"""


@pytest.mark.slow
@pytest.mark.uninstrumented
@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_ulimit_of_data_is_kept(tmp_path):
    path = tmp_path / "x.npy"
    np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(1 << 20, 256)).flush()
    helpers = str(Path(__file__).parents[2])
    ran = run_program(_LIMITED, path, environment={**os.environ, "PYTHONPATH": helpers})
    assert ran.returncode == 0, ran.stderr
    assert 0 < int(ran.stdout) * 1024 <= 128 << 20
