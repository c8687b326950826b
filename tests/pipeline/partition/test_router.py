"""Routers: where the row of an id is."""

from __future__ import annotations

import pickle

import pytest
import torch

import headrace as hr
from headrace.pipeline.partition.router import RankRouter

NUM_NODES = 40
OWNERS = {
    "range": hr.Partition.range(NUM_NODES, 3),
    "hash": hr.Partition.hash(NUM_NODES, 3),
    "table": hr.Partition.of(torch.arange(NUM_NODES) % 3),
}
X = torch.arange(NUM_NODES) * 10


def routed(kind: str, rank: int = 1) -> tuple[RankRouter, torch.Tensor]:
    """Return a router with copies, and these."""
    asked = torch.tensor([0, 3, 17, 22, 39])
    copies = asked[OWNERS[kind].owner(asked) != rank]
    return RankRouter(OWNERS[kind], rank, copies), copies


@pytest.mark.parametrize("kind", OWNERS)
def test_rows_are_where_the_router_says(kind):
    router, copies = routed(kind)
    assert [str(place) for place in router.places] == ["rank:0", "rank:1", "rank:2", "cpu"]
    tables = [*(X[OWNERS[kind].owned(part)] for part in range(3)), X[copies]]
    ids = torch.randint(NUM_NODES, (200,), generator=torch.Generator().manual_seed(0))
    for one in (router, RankRouter(OWNERS[kind])):
        found = one.locate(ids)
        rows = [int(tables[place][row]) for place, row in zip(found.place.tolist(), found.row.tolist(), strict=True)]
        assert rows == X[ids].tolist()
    assert set(ids[router.locate(ids).place == 3].tolist()) == set(copies.tolist())
    assert all(len(part) == 0 for part in router.locate(ids[:0]))


@pytest.mark.parametrize("kind", OWNERS)
def test_copies_are_asked_of_nobody(kind):
    router, copies = routed(kind)
    ids = torch.arange(NUM_NODES)
    expected = OWNERS[kind].owner(ids).clone()
    expected[copies] = 1
    assert torch.equal(router.rank_of(ids), expected)
    assert router.num_copies(ids) == router.num_copies(copies) == len(copies)
    without = RankRouter(OWNERS[kind], 1, copies[:0])
    assert torch.equal(without.rank_of(ids), OWNERS[kind].owner(ids))
    assert without.num_copies(ids) == 0
    assert without == RankRouter(OWNERS[kind]) != router


def test_all_ranks_print_the_same_and_travel():
    router, copies = routed("hash")
    other, _ = routed("hash", rank=0)
    assert repr(router) == repr(other) == repr(OWNERS["hash"])
    assert router.content_digest() == other.content_digest() == OWNERS["hash"].content_digest()
    assert router.places is router.places
    travelled = pickle.loads(pickle.dumps(router))  # noqa: S301
    assert travelled == router
    assert RankRouter(OWNERS["hash"], 0, copies) != RankRouter(OWNERS["hash"], 2, copies)
    assert travelled.num_copies(copies) == len(copies)


def test_a_partition_knows_owners_alone():
    feature = hr.ShardedFeature.of(X, OWNERS["hash"], 0, cached=[1, 2, 3])
    assert feature.partition is OWNERS["hash"] is feature.router.partition
    assert not hasattr(feature.partition, "num_copies")


def test_copies_of_tables_stay_on_their_device_and_do_not_travel():
    table, ids = hr.Partition.of([0, 1, 1, 0]), torch.arange(4, device="meta")
    assert table._copies.beside(ids, table._table) is table._copies.beside(ids, table._table)
    router = RankRouter(table, 0, torch.tensor([1]))
    assert router.rank_of(ids).device == router.locate(ids).row.device == ids.device
    assert len(router._copies_on._copies) == 1
    again, same = pickle.loads(pickle.dumps((table, router)))  # noqa: S301 - our own
    assert (again, same) == (table, router)
    assert not again._copies._copies
    assert not same._copies_on._copies
