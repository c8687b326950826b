"""One budget of bytes for the caches of several features."""

from __future__ import annotations

import torch
from caches import cached_bytes

import headrace as hr

NUM_ROWS = 40


def table(dtype=torch.float32, width=3):
    return torch.arange(NUM_ROWS * width).reshape(NUM_ROWS, width).to(dtype)


def test_loaders_count_what_caches_find():
    graph = hr.Graph.from_coo(torch.arange(NUM_ROWS), torch.arange(NUM_ROWS).roll(1), num_nodes=NUM_ROWS)
    store = hr.FeatureStore(node={"x": table(), "z": table(torch.int64, 1), "y": torch.arange(NUM_ROWS)})
    caches = hr.cached(store, node=["x", "z"], bytes=(cached_bytes(12) + cached_bytes(8)) * 10 + 165)
    assert (caches.node["x"].capacity, caches.node["z"].capacity) == (10, 10)
    assert caches.node["y"] is store.node["y"]
    assert caches.content_digest() == store.content_digest()

    def batches(features):
        plan = hr.ItemSampler(NUM_ROWS, batch_size=8, shuffle=True, seed=1).sample_neighbor(graph, fanouts=[1])
        loader = plan.fetch_feature(features, node=["x", "z"], labels="y").loader()
        made = [(batch.x, batch.node["z"], batch.y) for _ in range(2) for batch in loader]
        return made, loader.stats()["fetch_feature"]

    (plain, _), (through, stats) = batches(store), batches(caches)
    assert all(
        torch.equal(a, b) for one, other in zip(plain, through, strict=True) for a, b in zip(one, other, strict=True)
    )
    totals = [caches.node[name].stats() for name in ("x", "z")]
    assert stats["hits"] == sum(total["hits"] for total in totals) > 0
    assert stats["bytes_from_cache"] == sum(total["bytes_from_cache"] for total in totals)


def test_small_features_leave_what_they_do_not_need_to_the_others():
    store = hr.FeatureStore(node={"x": table(), "few": torch.zeros(4, 5), "z": table()})
    cost = cached_bytes(12, "lru")
    caches = hr.cached(store, node=["x", "few", "z"], bytes=4 * (cost + 8) + 2 * 11 * cost, policy="lru")
    assert {name: one.capacity for name, one in caches.node.items()} == {"x": 11, "few": 4, "z": 11}


def test_without_names_all_features_have_caches():
    store = hr.FeatureStore(node={"x": table(), "few": torch.zeros(4, 5)}, edge={"e": table()})
    caches = hr.cached(store, bytes=1 << 20)
    assert {name: one.capacity for name, one in caches.node.items()} == {"x": NUM_ROWS, "few": 4}
    assert caches.edge["e"].capacity == NUM_ROWS
    assert hr.cached(store, edge=["e"], bytes=1 << 20).node["x"] is store.node["x"]


def test_caches_on_a_gpu_share_a_budget():
    store = hr.FeatureStore(node={"x": table(), "few": torch.zeros(4, 5)})
    budget = 4 * cached_bytes(20, place="cuda:1") + 9 * cached_bytes(12, place="cuda:1")
    caches = hr.cached(store, bytes=budget, place="cuda:1")
    assert {name: one.capacity for name, one in caches.node.items()} == {"x": 9, "few": 4}
    assert {one.cache_place for one in caches.node.values()} == {hr.Place("cuda", 1)}
    assert caches.content_digest() == store.content_digest()
