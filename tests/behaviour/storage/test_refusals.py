"""Arguments that features, caches, tiers, shards and orders refuse, one row each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from ranks import partition
from tier_sizes import tier_sizes

import headrace as hr

from plans import NUM_NODES, graph

X = torch.arange(120.0).reshape(40, 3)
SCORES = torch.zeros(40, dtype=torch.float64)
STORE = hr.FeatureStore(node={"x": X})
RANK = torch.randperm(40, generator=torch.Generator().manual_seed(0))
ORDER = torch.arange(NUM_NODES)


def features(rows: object) -> Callable[[], object]:
    return lambda: hr.FeatureStore(node={"x": rows})


def cache(policy: str | None, **options: object) -> Callable[[], object]:
    return lambda: hr.CachedFeature(X, policy, **options)


def cached(store: hr.FeatureStore = STORE, **options: object) -> Callable[[], object]:
    return lambda: hr.cached(store, **{"bytes": 100, **options})


def tiers(rank: torch.Tensor = RANK, sizes: dict[str, int] = tier_sizes(), **options: object) -> Callable[[], object]:  # noqa: B008
    return lambda: hr.TieredFeature(X, rank, sizes, **options)


def shard(cached: list[int], rows: int | None) -> Callable[[], object]:
    copies = None if rows is None else torch.zeros(rows, 2)
    return lambda: hr.ShardedFeature(
        torch.zeros(100, 2), partition("range", 2), 1, cached=torch.tensor(cached), cached_rows=copies
    )


def reorder(*arguments: object, **options: object) -> Callable[[], object]:
    return lambda: hr.reorder(*(arguments or (graph(),)), **options)


def numbered(node_ids: torch.Tensor) -> Callable[[], object]:
    return lambda: hr.Graph(graph().indptr, graph().indices, node_ids=node_ids)


REFUSALS = {
    "feature: a number": (features(torch.tensor(1.0)), "'x' to have one row per id"),
    "feature: texts": (features(["a", "b"]), "node feature 'x' to be a numeric tensor"),
    "feature: bytes in another order": (features(np.zeros(2, dtype=">f4")), "numeric"),
    "feature: of no device": (
        features(torch.zeros(2, device="meta")),
        r"node feature 'x' in CPU memory, got float32\[2\] on meta",
    ),
    "feature: sparse": (features(torch.zeros(2).to_sparse()), "dense"),
    "cache: no such policy": (cache("mru", rows=1), "lru"),
    "cache: no size": (cache("lru"), "rows= or bytes="),
    "cache: two sizes": (cache("lru", rows=1, bytes=1), "rows= or bytes="),
    "cache: a size below 0": (cache("lru", rows=-1), "at least 1"),
    "cache: no rows": (cache("sieve", rows=0), "rows to be an integer of at least 1, got 0"),
    "cache: no rows of the highest scores": (
        cache("static", rows=0, scores=SCORES),
        "rows to be an integer of at least 1, got 0",
    ),
    "cache: no rows on a GPU": (cache(None, rows=0, place="cuda"), "rows to be an integer of at least 1, got 0"),
    "cache: no room on a GPU": (
        cache(None, bytes=1, place="cuda"),
        r"CachedFeature: .* got bytes=1; a row takes \d+ bytes",
    ),
    "cache: ids of what is not static": (cache("lru", rows=1, ids=[1]), "ids are those of a static cache"),
    "cache: scores that nothing reads": (cache("lru", rows=1, scores=SCORES), "expected no scores for 'lru'"),
    "cache: static without rows": (cache("static", rows=1), "ids= or scores="),
    "cache: static of two kinds": (cache("static", rows=1, ids=[1], scores=SCORES), "ids= or scores="),
    "cache: too few scores": (cache("static", rows=1, scores=SCORES[1:]), "a score for each"),
    "cache: repeated ids": (cache("static", rows=2, ids=[1, 1]), "distinct"),
    "cache: no ids": (
        cache("static", ids=torch.empty(0, dtype=torch.int64)),
        "expected ids of rows to hold, got none",
    ),
    "cached: no names": (cached(node=[]), "names of features"),
    "cached: nothing to cache": (cached(hr.FeatureStore()), "names of features"),
    "cached: no such feature": (cached(node=["z"]), "'z'"),
    "cached: static without rows": (cached(node=["x"], policy="static"), "ids= or scores="),
    "cached: a policy on a GPU": (cached(policy="lru", place="cuda"), "no policy for caches on cuda"),
    "cached: no such place": (cached(node=["x"], place="meta"), "expected place to be a GPU"),
    "cached: no such policy": (cached(policy="fifo"), "cached: expected a policy for all caches, one of .* got 'fifo'"),
    "cached: no room on a GPU": (
        cached(bytes=1, place="cuda:0"),
        "cached: expected room for at least one row of each feature",
    ),
    "tiers: a rank too few": (tiers(RANK[1:]), "each once"),
    "tiers: no ranks": (tiers(RANK[:0]), "a rank for each of 40 rows"),
    "tiers: repeated ranks": (tiers(torch.zeros(40, dtype=torch.int64)), "each once"),
    "tiers: too many rows": (tiers(sizes=tier_sizes(host=41)), "at most 40 rows"),
    "tiers: no places": (tiers(sizes=tier_sizes(2, 0, 0, 2), stand_ins=True), "places of 2 devices"),
    "tiers: no GPU": (tiers(sizes=tier_sizes(2, 0, 0, 1), devices=[hr.Place("cuda", 0)]), "need a GPU"),
    "shard: repeated copies": (shard([5, 5], 2), "distinct"),
    "shard: copies of no rows": (shard([5, 1000], 2), "distinct"),
    "shard: copies of its own": (shard([150], 1), "owns itself"),
    "shard: copies without rows": (shard([5], None), "together"),
    "reorder: no order": (reorder(), "expected one of scores= and order="),
    "reorder: two orders": (reorder(scores=ORDER, order=ORDER), "expected one of scores= and order="),
    "reorder: too few scores": (reorder(scores=ORDER[1:]), "expected a score for each of 200 nodes, got 199"),
    "reorder: no graph": (reorder([], scores=ORDER), r"expected an hr\.Graph, got list"),
    "reorder: repeats": (
        reorder(order=torch.zeros(NUM_NODES, dtype=torch.int64)),
        "order to hold each of 200 nodes once",
    ),
    "reorder: too few rows": (
        reorder(graph(), hr.FeatureStore(node={"x": torch.zeros(199)}), scores=ORDER),
        "to have a row for each of the graph's 200 nodes, got 199",
    ),
    "reorder: twice": (
        lambda: hr.reorder(hr.reorder(graph(), scores=ORDER).graph, scores=ORDER),
        "has been reordered already",
    ),
    "node_ids: too few": (numbered(ORDER[1:]), "expected node_ids"),
    "node_ids: of 32 bits": (numbered(ORDER.int()), "expected node_ids"),
    "node_ids: repeats": (numbered(torch.zeros(NUM_NODES, dtype=torch.int64)), "expected node_ids"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused(name):
    call, message = REFUSALS[name]
    with pytest.raises(hr.InputError, match=message):
        call()
