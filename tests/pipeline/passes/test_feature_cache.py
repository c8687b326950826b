"""feature_cache: fires, refuses, is switched off, gives the same result."""

from __future__ import annotations

import pytest
import torch

import headrace as hr
from headrace.ops.cache.set_index import SLOT_BYTES
from headrace.pipeline.data.graph_machinery import arrays_on, fits_on_gpu
from headrace.pipeline.passes import feature_cache, rewrite
from headrace.pipeline.storage.gpu_cached_feature import GpuCachedFeature

from gpu_plans import digests, fetched, names
from plans import NUM_NODES, graph, items, store, store_on_disk

ROW = 32
#: A quarter of whose memory holds 31 of the 200 rows of x.
GPU = hr.Machine(cores=2, gpus=2, gpu_memory=(4 * 31 * (ROW + SLOT_BYTES), 8 * 31 * (ROW + SLOT_BYTES)))


@pytest.fixture(autouse=True)
def _small_features_too(monkeypatch):
    monkeypatch.setattr(feature_cache, "LEAST_BYTES", 1000)


def fetch(plan, machine=GPU, **switches):
    """The stage that fetches, on its own."""
    final = rewrite(plan, machine, {"stream_overlap": False, "lookahead": False, **switches}).final
    return next(stage for stage in final.stages if stage.fetches)


def test_fires_before_the_copy_and_behind_it():
    seeds_first = items().copy_to("cuda").sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"])
    for plan in (fetched().copy_to("cuda"), seeds_first):
        stage = fetch(plan)
        source = stage.wants.store.node["x"]
        assert stage.name == "fetch_to"  # which reads through it
        assert isinstance(source, GpuCachedFeature)
        assert (source.capacity, source.cache_place) == (31, hr.Place("cuda", 0))


def test_fires_for_the_gpu_of_the_copy():
    source = fetch(fetched().copy_to("cuda:1")).wants.store.node["x"]
    assert (source.capacity, source.cache_place) == (62, hr.Place("cuda", 1))


def test_features_share_one_budget():
    plan = items().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"], edge=["e"], labels="y")
    whole = fetch(plan.copy_to("cuda"))
    x, e, y = whole.wants.store.node["x"], whole.wants.store.edge["e"], whole.wants.store.node["y"]
    assert x.capacity == e.capacity == y.capacity == 31 * (ROW + SLOT_BYTES) // (32 + 12 + 8 + 3 * SLOT_BYTES)
    other = hr.FeatureStore(node={"z": torch.zeros(NUM_NODES, 8)})
    two = items().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"]).fetch_feature(other, node=["z"])
    stages = rewrite(two.copy_to("cuda"), GPU, {"lookahead": False, "stream_overlap": False}).final.stages
    caches = [source for stage in stages if stage.wants is not None for source in stage.wants.sources()]
    assert [cache.capacity for cache in caches] == [15, 15]


@pytest.mark.parametrize("eighths", [3, 4])
def test_graphs_that_fit_still_fit_behind_caches(eighths):
    """They are copied with the first batch, where they have half of what is free then."""
    num_bytes = arrays_on(graph(), None).num_bytes
    memory = num_bytes * 8 // eighths
    machine = hr.Machine(cores=2, gpus=1, gpu_memory=(memory,))
    seeds_first = items().copy_to("cuda").sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"])
    source = fetch(seeds_first, machine).wants.store.node["x"]
    taken = source.capacity * (ROW + SLOT_BYTES) if isinstance(source, GpuCachedFeature) else 0
    assert fits_on_gpu(graph(), 0, memory)
    assert fits_on_gpu(graph(), 0, memory - taken)
    assert (taken > 0) == (eighths == 3)
    assert isinstance(fetch(fetched().copy_to("cuda"), machine).wants.store.node["x"], GpuCachedFeature)


def test_features_that_fit_are_cached_whole():
    machine = hr.Machine(cores=2, gpus=1, gpu_memory=(1 << 20,))
    source = fetch(fetched().copy_to("cuda"), machine).wants.store.node["x"]
    assert source.capacity == NUM_NODES
    assert source.foresight == 0
    assert "expect_rows" not in names(fetched().copy_to("cuda"), machine)


def test_reads_to_come_are_told_before_the_copy_or_where_the_batch_is_sampled():
    assert names(fetched().copy_to("cuda"), GPU) == [
        *["item_sampler", "sample_fused", "prefetch", "expect_rows", "prefetch"],
        *["on_stream", "copy_to", "fetch_to", "prefetch", "wait_stream"],
    ]
    seeds_first = items().copy_to("cuda").sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"])
    assert names(seeds_first, GPU)[-2:] == ["expect_rows", "fetch_to"]
    assert "expect_rows" not in names(fetched().copy_to("cuda"), GPU, lookahead=False)
    assert "expect_rows" not in names(fetched().copy_to("cuda"), GPU, feature_cache=False)
    assert names(fetched().copy_to("cuda").prefetch(workers=2), GPU)[2:] == [
        *["prefetch", "expect_rows", "on_stream", "copy_to", "fetch_to", "prefetch", "wait_stream"]
    ]


def test_a_fetch_in_cpu_memory_looks_ahead_for_no_cache_on_a_gpu():
    cached = hr.FeatureStore(node={"x": GpuCachedFeature(store().node["x"], rows=3)})
    plan = items().sample_neighbor(graph(), [3]).fetch_feature(cached, node=["x"])
    for whole in (plan, plan.prefetch().copy_to("cuda")):
        assert not {"fetch_ahead", "expect_rows"} & set(names(whole, GPU))
    assert names(plan.copy_to("cuda"), GPU, feature_cache=False) == names(fetched().copy_to("cuda"), GPU)


def test_refuses_small_features_and_where_memory_is_not_known(monkeypatch):
    plan = fetched().copy_to("cuda")
    assert names(plan, hr.Machine(cores=2, gpus=1)) == names(plan, GPU, feature_cache=False)
    assert not isinstance(fetch(plan, hr.Machine(gpus=1)).wants.store.node["x"], GpuCachedFeature)
    monkeypatch.setattr(feature_cache, "LEAST_BYTES", NUM_NODES * ROW + 1)
    assert not isinstance(fetch(plan).wants.store.node["x"], GpuCachedFeature)


def test_refuses_other_devices_and_what_a_gpu_does_not_read_in_place():
    assert not isinstance(fetch(fetched().copy_to("meta")).wants.store.node["x"], GpuCachedFeature)
    assert not isinstance(fetch(fetched()).wants.store.node["x"], GpuCachedFeature)
    assert not isinstance(fetch(fetched(store_on_disk).copy_to("cuda")).wants.store.node["x"], GpuCachedFeature)
    assert not isinstance(fetch(fetched().copy_to("cuda"), hr.Machine()).wants.store.node["x"], GpuCachedFeature)
    # The user's own thread is between: rows are read before it.
    assert not isinstance(fetch(fetched().prefetch().copy_to("cuda")).wants.store.node["x"], GpuCachedFeature)


def test_refuses_what_is_cached_already():
    for cached in (GpuCachedFeature(store().node["x"], rows=3), hr.CachedFeature(store().node["x"], rows=3)):
        plan = items().sample_neighbor(graph(), [3]).fetch_feature(hr.FeatureStore(node={"x": cached}), node=["x"])
        assert fetch(plan.copy_to("cuda")).wants.store.node["x"] is cached


def test_is_switched_off():
    assert not isinstance(fetch(fetched().copy_to("cuda"), feature_cache=False).wants.store.node["x"], GpuCachedFeature)


def test_says_so():
    text = str(rewrite(fetched().copy_to("cuda"), GPU).explain())
    assert "feature_cache" in text
    assert "CachedFeature(float32[200, 8], rows=31, place='cuda:0')" in text


def test_same_result():
    expected = digests(fetched(), hr.Machine())
    seeds_first = items().copy_to("cuda").sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"])
    for machine in (GPU, hr.Machine(cores=1, gpus=1, gpu_memory=(1 << 20,))):
        assert digests(fetched().copy_to("cuda"), machine) == expected
        assert digests(seeds_first, machine) == expected
