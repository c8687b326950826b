"""fuse_exchange: fires, refuses, is switched off, gives the same result."""

from __future__ import annotations

import pytest
import torch
from explained import names_of, stages
from ranks import cooperative_batches, partition, run_ranks

import headrace as hr

from plans import NUM_NODES, graph, items, store

X = torch.arange(2.0 * NUM_NODES).reshape(NUM_NODES, 2)
Z = torch.arange(NUM_NODES) * 3


class Slow:
    """A source that returns rows and cannot place them."""

    num_rows, row_bytes, dtype, shape = NUM_NODES, 8, torch.float32, (NUM_NODES, 2)

    def read(self, ids: torch.Tensor, *, num_threads: int = 1, to: hr.Place | None = None) -> hr.Rows:
        del num_threads, to
        return hr.Rows(X[ids])

    def content_digest(self) -> str:
        return "slow"


def sampled(**options: object) -> hr.Plan:
    return items(batch_size=40, **options).sample_neighbor(graph(), [4, 3])


SHOWN = ("fetch", "exchange_rows", "return_ids")


def fetches(plan: hr.Plan, **switches: bool) -> list[str]:
    """What of the final plan of one of two ranks fetches or gives rows back."""
    text = plan.explain(machine=hr.Machine(world_size=2), **{"cooperative": True, "prefetch": False, **switches})
    return [stage for stage in stages(text) if stage.startswith(SHOWN)]


def test_fires():
    of_x = "fetch_and_exchange(store#1, node=['x'])"
    plan = sampled().fetch_feature(store(), node=["x"], edge=["e"], labels="y")
    assert fetches(plan) == ["fetch_feature(store#1, edge=['e'], labels='y')", of_x, "return_ids"]
    assert fetches(sampled().fetch_feature(store(), node=["x"])) == [of_x, "return_ids"]


def test_fuses_all_stages_that_fetch():
    features = hr.FeatureStore(node={"x": X, "z": Z})
    plan = sampled().fetch_feature(features, node=["z"]).fetch_feature(features, node=["x"])
    fused = [f"fetch_and_exchange(store#1, node=['{name}'])" for name in "zx"]
    assert fetches(plan) == [*fused, "return_ids"]


def test_refuses_what_cannot_place_rows():
    features = hr.FeatureStore(node={"slow": Slow(), "z": Z})
    plan = sampled().fetch_feature(features, node=["slow", "z"])
    slow = ["fetch_owned(store#1, node=['slow'])", "exchange_rows(['slow'])"]
    assert fetches(plan) == [*slow, "fetch_and_exchange(store#1, node=['z'])", "return_ids"]


SOURCES = {
    "bfloat16": X.bfloat16(),
    "bool": X > 50,
    "complex64": X.to(torch.complex64),
    "no width": X[:, :0],
    "one number": X[:, 0],
    "columns": torch.cat([X, X], 1)[:, 1:3],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("mode", ["cooperative", "hybrid", "full"])
def test_every_kind_of_rows_in_every_mode(kind, mode):
    owners = partition("table", 3)

    def work(comm: hr.Comm) -> list[bool]:
        x = SOURCES[kind] if mode == "cooperative" else hr.ShardedFeature.of(SOURCES[kind], owners, comm.rank)
        subject = graph().shard(owners, comm.rank) if mode == "full" else graph()
        plan = items(batch_size=40).sample_neighbor(subject, [4, 3]).prefetch(1, 1)
        plan = plan.fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])
        where = {"cooperative": True, "partition": owners} if mode == "cooperative" else {}
        with plan.loader(comm=comm, **where) as loader:
            assert names_of(loader.explain())[-2] == "fetch_and_exchange"
            return [torch.equal(batch.node["x"], SOURCES[kind].detach()[batch.n_id]) for batch in loader]

    assert all(all(same) for same in run_ranks(3, work))


def test_refuses_plans_without_an_exchange():
    plan = sampled().fetch_feature(store(), node=["x"])
    assert fetches(plan, cooperative=False) == ["fetch_feature(store#1, node=['x'])"]


def test_fires_on_features_in_shards_without_cooperation():
    shards = [hr.ShardedFeature.of(X, partition(kind, 2), 0) for kind in ("hash", "range")]
    features = hr.FeatureStore(node=dict(zip("xz", shards, strict=True)))
    plan = sampled().fetch_feature(features, node=["x", "z"])
    each = [(f"fetch_and_exchange(store#1, node=['{name}'])", "return_ids(keep=False)") for name in "xz"]
    assert fetches(plan, cooperative=False) == [stage for pair in each for stage in pair]


def test_is_switched_off():
    plan = sampled().fetch_feature(store(), node=["x"])
    assert fetches(plan, fuse_exchange=False) == [
        "fetch_owned(store#1, node=['x'])",
        "exchange_rows(['x'])",
        "return_ids",
    ]


@pytest.mark.parametrize("kind", ["whole", "shards", "copies", "slow"])
@pytest.mark.parametrize("world_size", [2, 3, pytest.param(8, marks=pytest.mark.slow)])
def test_same_result(kind, world_size):
    owners = partition("table", world_size)

    def x_of(rank: int) -> object:
        if kind == "whole":
            return X
        if kind == "slow":
            return Slow()
        return hr.ShardedFeature.of(X, owners, rank, cached=torch.arange(30) if kind == "copies" else None)

    def digests(comm: hr.Comm, *, fuse: bool) -> tuple[list[str], float, float]:
        features = hr.FeatureStore(node={"x": x_of(comm.rank), "z": Z})
        plan = sampled().fetch_feature(features, node=["x", "z"], labels="z")
        with plan.loader(cooperative=True, comm=comm, partition=owners, fuse_exchange=fuse) as loader:
            found = [batch.digest() for batch in loader]
            return found, loader.stats().total("sent_bytes"), loader.stats().total("rounds")

    fused, apart = (run_ranks(world_size, lambda comm, fuse=fuse: digests(comm, fuse=fuse)) for fuse in (True, False))
    assert fused == apart


@pytest.mark.parametrize("copies", [None, torch.arange(30)])
@pytest.mark.parametrize("world_size", [2, 3, pytest.param(8, marks=pytest.mark.slow)])
def test_same_result_as_whole_features_without_cooperation(copies, world_size):
    owners = partition("table", world_size)
    whole = hr.FeatureStore(node={"x": X, "z": Z})

    def digests(comm: hr.Comm, *, shards: bool, fuse: bool) -> list[str]:
        cut = {
            name: hr.ShardedFeature.of(rows, owners, comm.rank, cached=copies) for name, rows in (("x", X), ("z", Z))
        }
        features = hr.FeatureStore(node=cut) if shards else whole
        plan = sampled(partition=owners).fetch_feature(features, node=["x", "z"])
        where = {"comm": comm} if shards else {"rank": comm.rank, "world_size": world_size}
        with plan.loader(fuse_exchange=fuse, **where) as loader:
            return [batch.digest() for batch in loader]

    expected = run_ranks(world_size, lambda comm: digests(comm, shards=False, fuse=True))
    for fuse in (True, False):
        assert run_ranks(world_size, lambda comm, fuse=fuse: digests(comm, shards=True, fuse=fuse)) == expected


def test_counts_each_row_once_and_what_is_read_again():
    plan = sampled().fetch_feature(store(), node=["x"])
    row_bytes = store().node["x"].row_bytes

    def counted(comm: hr.Comm) -> tuple[dict[str, float], int, int, int]:
        with plan.loader(cooperative=True, comm=comm) as loader:
            exchanges = [batch.exchanges[0] for batch in loader]
            read = sum(exchange.num_own + exchange.num_sent for exchange in exchanges)
            owned = sum(len(exchange.owned) for exchange in exchanges)
            received = sum(exchange.num_received for exchange in exchanges)
            return dict(loader.stats().lowered["fetch_and_exchange"]), read, owned, received

    for stats, read, owned, received in run_ranks(3, counted):
        assert stats["rows"] == owned
        assert stats["reread_rows"] == read - owned > 0
        assert stats["bytes"] == owned * row_bytes
        assert stats["bytes_from_cpu"] == read * row_bytes
        assert stats["bytes_from_rank"] == received * row_bytes > 0


def test_both_ways_of_fetching_count_what_comes_from_other_ranks():
    def received(comm: hr.Comm) -> list[float]:
        totals = []
        for fuse in (True, False):
            plan = sampled().fetch_feature(store(), node=["x"])
            with plan.loader(cooperative=True, comm=comm, fuse_exchange=fuse) as loader:
                list(loader)
                totals.append(loader.stats().total("bytes_from_rank"))
        return totals

    for fused, apart in run_ranks(2, received):
        assert fused == apart > 0


def test_a_rank_may_own_nothing_and_want_nothing():
    features = hr.FeatureStore(node={"x": X})
    plan = hr.ItemSampler(torch.tensor([3]), batch_size=1).sample_neighbor(graph(), [2])
    shares = cooperative_batches(plan.fetch_feature(features, node=["x"]), 3, partition=partition("table", 3))
    for (batch,) in shares:
        assert torch.equal(batch.x, X[batch.n_id])
