"""tiered_cache: fires, refuses, is switched off, gives the same result."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from explained import names, names_of, stages, store_of
from ranks import run_ranks

import headrace as hr

from plans import NUM_NODES, graph, items, store, store_on_disk

SMALL = hr.Machine(cores=1, memory=1 << 13)  # a quarter of it holds 13 of the 200 rows of x
ROW = 32
SLOT = 116  # bytes by which a look-ahead cache finds and chooses a row
CACHED_ROW = ROW + SLOT
LARGE = hr.Machine(cores=1, memory=4 * NUM_NODES * CACHED_ROW)  # a quarter of it holds all of them


def source_of(features=None, machine=SMALL, **switches) -> str:
    """The source of x that the plan reads, as explain() describes it."""
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(features or store_on_disk(), node=["x"])
    text = plan.explain(machine=machine, lookahead=False, **switches)
    return re.search(r"'x': (\w+(?:\(.*?\))?)", store_of(text, stages(text)[-1])).group(1)


def is_cached(features=None, machine=SMALL, **switches) -> bool:
    return source_of(features, machine, **switches).startswith("CachedFeature(")


def test_fires_for_rows_on_disk_that_do_not_fit_in_memory():
    rows = SMALL.memory // 4 // CACHED_ROW
    assert source_of() == f"CachedFeature(RowsOnDisk, policy='look-ahead', rows={rows})"


def read_from_a_file(folder, fanouts) -> hr.Plan:
    np.save(folder / "x.npy", store().node["x"].read(torch.arange(NUM_NODES)).rows.numpy())
    features = hr.FeatureStore(node={"x": hr.DiskFeature(folder / "x.npy")})
    return items().sample_neighbor(graph(), fanouts).fetch_feature(features, node=["x"])


def test_a_cache_of_all_rows_stays_and_looks_at_nothing_ahead(tmp_path):
    plan = read_from_a_file(tmp_path, [4])
    text = plan.explain(machine=LARGE)
    assert names_of(text)[-1] == "fetch_feature"
    assert f"rows={NUM_NODES})" in store_of(text, stages(text)[-1])
    assert names(plan, replace(LARGE, memory=LARGE.memory - 4))[-1] == "fetch_ahead"


def test_leaves_rows_that_do_not_fit_to_windows():
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(store_on_disk(), node=["x"])
    text = plan.explain(machine=SMALL)
    room = SMALL.memory // 4 + SMALL.memory // 8
    assert stages(text)[-1] == f"fetch_ahead(store#1, node=['x'], bytes_in_view={room})"
    assert "CachedFeature" not in store_of(text, stages(text)[-1])
    of_mine = hr.FeatureStore(node={"x": hr.CachedFeature(store_on_disk().node["x"], "look-ahead", rows=13)})
    text = items().sample_neighbor(graph(), [4]).fetch_feature(of_mine, node=["x"]).explain(machine=SMALL)
    assert stages(text)[-1] == f"fetch_ahead(store#1, node=['x'], bytes_in_view={SMALL.memory // 8})"
    assert store_of(text, stages(text)[-1]) == repr(of_mine)


def test_caches_features_of_one_fetch_within_one_budget():
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(store_on_disk(), node=["x"], edge=["e"], labels="y")
    text = plan.explain(machine=SMALL, lookahead=False)
    described = store_of(text, stages(text)[-1])
    x, e = (int(rows) for rows in re.findall(r"policy='look-ahead', rows=(\d+)", described))
    # y takes less than half of the memory: the system keeps the pages of a mapped file.
    assert "'y': RowsOnDisk}" in described
    assert 0 < x * (ROW + SLOT) + e * (12 + SLOT) <= SMALL.memory // 4


@pytest.mark.parametrize("fused", [True, False])
def test_owners_read_rows_from_disk_through_caches(fused):
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(store_on_disk(), node=["x"])
    text = plan.explain(machine=replace(SMALL, world_size=2), cooperative=True, fuse_exchange=fused)
    (fetch,) = (stage for stage in stages(text) if stage.startswith("fetch_"))
    assert fetch.startswith("fetch_and_exchange(" if fused else "fetch_owned(")
    assert "'x': CachedFeature(" in store_of(text, fetch)

    def work(comm: hr.Comm) -> list[bool]:
        with plan.loader(comm=comm, cooperative=True, machine=SMALL, fuse_exchange=fused) as loader:
            assert "CachedFeature" in loader.explain()
            rows = store().node["x"]
            return [torch.equal(batch.x, rows.read(batch.n_id).rows) for batch in loader]

    assert all(all(same) for same in run_ranks(2, work))


def test_refuses_rows_in_memory_and_mapped_files_that_fit(tmp_path):
    assert not is_cached(store())
    np.save(tmp_path / "x.npy", np.zeros((NUM_NODES, 8), np.float32))
    mapped = hr.FeatureStore(node={"x": np.load(tmp_path / "x.npy", mmap_mode="r")})
    assert not is_cached(mapped, hr.Machine(memory=1 << 20))
    assert is_cached(mapped, SMALL)


def test_refuses_without_room_and_where_memory_is_not_known():
    for machine in (hr.Machine(), hr.Machine(memory=4 * CACHED_ROW - 1)):
        assert source_of(machine=machine) == "RowsOnDisk"


def test_refuses_what_is_cached_already():
    cached = hr.FeatureStore(node={"x": hr.CachedFeature(store_on_disk().node["x"], "lru", rows=3)})
    assert source_of(cached) == "CachedFeature(RowsOnDisk, policy='lru', rows=3)"


def test_is_switched_off():
    assert source_of(tiered_cache=False) == "RowsOnDisk"


def test_same_result():
    def epoch(features: hr.FeatureStore, **options: object) -> list[str]:
        plan = items().sample_neighbor(graph(), [4, 3]).fetch_feature(features, node=["x"], edge=["e"], labels="y")
        with plan.loader(**options) as loader:
            return [batch.digest() for _ in loader.epochs(2) for batch in loader]

    expected = epoch(store())
    for machine in (SMALL, LARGE, hr.Machine(cores=2, memory=1 << 13), hr.Machine(cores=2, memory=1 << 11)):
        for switches in ({}, {"lookahead": False}, {"tiered_cache": False}):
            assert epoch(store_on_disk(), machine=machine, **switches) == expected


def test_what_was_hit_is_counted(tmp_path):
    with read_from_a_file(tmp_path, [4, 3]).loader(machine=SMALL, lookahead=False) as loader:
        rows = sum(len(batch.n_id) for batch in loader)
        stats = loader.stats()["fetch_feature"]
    assert stats["hits"] + stats["misses"] == rows == stats["rows"]
    assert 0 < stats["hits"] < rows
    assert stats["bytes_from_disk"] == stats["misses"] * ROW
