"""tiered_cache: fires, refuses, is switched off, gives the same result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from ranks import run_ranks

import headrace as hr
from headrace.ops.cache.index import SLOT_BYTES
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.machine import Machine

from plans import NUM_NODES, graph, items, store, store_on_disk

SMALL = Machine(cores=1, memory=1 << 13)  # a quarter of it holds 13 of the 200 rows of x
ROW = 32
CACHED_ROW = ROW + SLOT_BYTES["look-ahead"]
LARGE = Machine(cores=1, memory=4 * NUM_NODES * CACHED_ROW)  # a quarter of it holds all of them


def fetch(machine=SMALL, features=None, **switches) -> hr.Stage:
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(features or store_on_disk(), node=["x"])
    final = rewrite(plan, machine, {"lookahead": False, **switches}).final
    return final.stages[-1]


def test_fires_for_rows_on_disk_that_do_not_fit_in_memory():
    source = fetch().wants.store.node["x"]
    assert isinstance(source, hr.CachedFeature)
    assert (source.policy, source.capacity) == ("look-ahead", SMALL.memory // 4 // CACHED_ROW)


def read_from_a_file(folder, fanouts) -> hr.Plan:
    np.save(folder / "x.npy", store().node["x"].read(torch.arange(NUM_NODES)).rows.numpy())
    features = hr.FeatureStore(node={"x": hr.DiskFeature(folder / "x.npy")})
    return items().sample_neighbor(graph(), fanouts).fetch_feature(features, node=["x"])


def test_a_cache_of_all_rows_stays_and_looks_at_nothing_ahead(tmp_path):
    plan = read_from_a_file(tmp_path, [4])
    stages = rewrite(plan, LARGE).final.stages
    assert stages[-1].name == "fetch_feature"
    assert stages[-1].wants.store.node["x"].capacity == NUM_NODES
    assert rewrite(plan, replace(LARGE, memory=LARGE.memory - 4)).final.stages[-1].name == "fetch_ahead"


def test_leaves_rows_that_do_not_fit_to_windows():
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(store_on_disk(), node=["x"])
    windows = rewrite(plan, SMALL).final.stages[-1]
    assert windows.name == "fetch_ahead"
    assert windows.wants.store is plan.stages[-1].wants.store
    assert windows.bytes_in_view == SMALL.memory // 4 + SMALL.memory // 8
    of_mine = hr.FeatureStore(node={"x": hr.CachedFeature(store_on_disk().node["x"], "look-ahead", rows=13)})
    mine = rewrite(items().sample_neighbor(graph(), [4]).fetch_feature(of_mine, node=["x"]), SMALL).final.stages[-1]
    assert mine.wants.store is of_mine
    assert mine.bytes_in_view == SMALL.memory // 8


def test_caches_features_of_one_fetch_within_one_budget():
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(store_on_disk(), node=["x"], edge=["e"], labels="y")
    whole = rewrite(plan, SMALL, {"lookahead": False}).final.stages[-1].wants.store
    cached = [whole.node["x"], whole.edge["e"], whole.node["y"]]
    # y takes less than half of the memory: the system keeps the pages of a mapped file.
    assert [isinstance(one, hr.CachedFeature) for one in cached] == [True, True, False]
    assert sum(one.capacity * (one.row_bytes + SLOT_BYTES["look-ahead"]) for one in cached[:2]) <= SMALL.memory // 4


@pytest.mark.parametrize("fused", [True, False])
def test_owners_read_rows_from_disk_through_caches(fused):
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(store_on_disk(), node=["x"])
    final = rewrite(plan, replace(SMALL, world_size=2), {"cooperative": True, "fuse_exchange": fused}).final
    (wanted,) = (stage.wants for stage in final.stages if stage.wants is not None)
    assert isinstance(wanted.store.node["x"], hr.CachedFeature)
    assert any(stage.name == ("fetch_and_exchange" if fused else "fetch_owned") for stage in final.stages)

    def work(comm: hr.Comm) -> list[bool]:
        with plan.loader(comm=comm, cooperative=True, machine=SMALL, fuse_exchange=fused) as loader:
            assert "CachedFeature" in loader.explain()
            rows = store().node["x"]
            return [torch.equal(batch.x, rows.read(batch.n_id).rows) for batch in loader]

    assert all(all(same) for same in run_ranks(2, work))


def test_refuses_rows_in_memory_and_mapped_files_that_fit(tmp_path):
    assert not isinstance(fetch(features=store()).wants.store.node["x"], hr.CachedFeature)
    np.save(tmp_path / "x.npy", np.zeros((NUM_NODES, 8), np.float32))
    mapped = hr.FeatureStore(node={"x": np.load(tmp_path / "x.npy", mmap_mode="r")})
    assert not isinstance(fetch(Machine(memory=1 << 20), mapped).wants.store.node["x"], hr.CachedFeature)
    assert isinstance(fetch(SMALL, mapped).wants.store.node["x"], hr.CachedFeature)


def test_refuses_without_room_and_where_memory_is_not_known():
    for machine in (Machine(), Machine(memory=4 * CACHED_ROW - 1)):
        assert fetch(machine).wants.store.node["x"] is store_on_disk().node["x"]


def test_refuses_what_is_cached_already():
    cached = hr.FeatureStore(node={"x": hr.CachedFeature(store_on_disk().node["x"], "lru", rows=3)})
    assert fetch(features=cached).wants.store.node["x"] is cached.node["x"]


def test_is_switched_off():
    assert fetch(tiered_cache=False).wants.store.node["x"] is store_on_disk().node["x"]


def test_same_result():
    def epoch(features: hr.FeatureStore, **options: object) -> list[str]:
        plan = items().sample_neighbor(graph(), [4, 3]).fetch_feature(features, node=["x"], edge=["e"], labels="y")
        with plan.loader(**options) as loader:
            return [batch.digest() for _ in loader.epochs(2) for batch in loader]

    expected = epoch(store())
    for machine in (SMALL, LARGE, Machine(cores=2, memory=1 << 13), Machine(cores=2, memory=1 << 11)):
        for switches in ({}, {"lookahead": False}, {"tiered_cache": False}):
            assert epoch(store_on_disk(), machine=machine, **switches) == expected


def test_what_was_hit_is_counted(tmp_path):
    with read_from_a_file(tmp_path, [4, 3]).loader(machine=SMALL, lookahead=False) as loader:
        rows = sum(len(batch.n_id) for batch in loader)
        stats = loader.stats()["fetch_feature"]
    assert stats["hits"] + stats["misses"] == rows == stats["rows"]
    assert 0 < stats["hits"] < rows
    assert stats["bytes_from_disk"] == stats["misses"] * ROW
