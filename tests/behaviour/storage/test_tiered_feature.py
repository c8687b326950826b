"""Features in tiers: gathers equal plain indexing, devices share what is dealt out, bytes are counted by place."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import numpy as np
import pytest
import torch
from explained import names, passes
from feature_rows import in_memory
from hypothesis import given
from hypothesis import strategies as st
from tier_sizes import tier_sizes

import headrace as hr

from plans import NUM_NODES, RowsOnDisk, graph, items, store, store_on_disk

CPU, DISK = hr.Place("cpu"), hr.Place("disk")
N = 50
ROWS = torch.randn(N, 3)
RANK = torch.randperm(N, generator=torch.Generator().manual_seed(0))


def devices(count: int) -> tuple[hr.Place, ...]:
    return tuple(hr.Place("cuda", number) for number in range(count))


def tiered(sizes: dict[str, int], *, here: int = 0, place: hr.Place | None = None) -> hr.TieredFeature:
    source = RowsOnDisk(ROWS) if place == DISK else in_memory(ROWS)
    return hr.TieredFeature(source, RANK, sizes, devices=devices(sizes["num_devices"]), here=here, stand_ins=True)


#: No tier, each alone, all of them; boundaries where a tier ends with the rows.
SIZES = [
    tier_sizes(),
    tier_sizes(host=20),
    tier_sizes(host=N),
    tier_sizes(replicated=7, num_devices=1),
    tier_sizes(replicated=7, num_devices=3),
    tier_sizes(interleaved=N, num_devices=4),
    tier_sizes(5, 13, 9, 3),
    tier_sizes(5, 13, N - 18, 2),
]


def boundary_ids(sizes: dict[str, int]) -> list[int]:
    ends = [0, *accumulate(list(sizes.values())[:3]), N]
    at = RANK.argsort()
    return [int(at[rank]) for end in ends for rank in (end - 1, end) if 0 <= rank < N]


@pytest.mark.slow
@pytest.mark.combinations(4)
@pytest.mark.parametrize("place", [None, DISK], ids=["cpu", "disk"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@given(ids=st.lists(st.integers(0, N - 1), max_size=30), num_threads=st.integers(1, 4))
def test_a_gather_through_any_tiers_is_plain_indexing(sizes, place, ids, num_threads):
    for here in range(max(sizes["num_devices"], 1)):
        feature = tiered(sizes, here=here, place=place)
        for wanted in (ids, boundary_ids(sizes), ids + ids):
            for dtype in (torch.int32, torch.int64):
                rows, counts = feature.read(torch.tensor(wanted, dtype=dtype), num_threads=num_threads)
                assert torch.equal(rows, ROWS[wanted])
                assert sum(counts.values()) == rows.nbytes


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_rows_are_written_where_they_are_wanted(sizes):
    ids, places = torch.arange(0, N, 3), torch.randperm(N)[: len(range(0, N, 3))]
    out = torch.zeros(N, 3)
    feature = tiered(sizes)
    counts = feature.read_into(ids, out, places=places)
    assert torch.equal(out[places], ROWS[ids])
    assert int((out != 0).any(1).sum()) == len(ids)
    assert sum(counts.values()) == len(ids) * feature.row_bytes


def test_bytes_count_by_place():
    sizes = tier_sizes(replicated=5, interleaved=12, host=10, num_devices=3)
    by_rank = RANK.argsort()
    feature = tiered(sizes, here=1, place=DISK)
    assert feature.router.places == (
        hr.Place("peer"),
        hr.Place("cuda", 1),
        hr.Place("peer"),
        hr.Place("pinned"),
        hr.Place("disk"),
    )
    expected = {"bytes_from_cuda": 5 + 4, "bytes_from_peer": 8, "bytes_from_pinned": 10, "bytes_from_disk": N - 27}
    _, counts = feature.read(by_rank)
    assert counts == {name: rows * feature.row_bytes for name, rows in expected.items()}


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_reads_of_nothing_count_zeros(sizes, tmp_path):
    np.save(tmp_path / "x.npy", ROWS.numpy())
    source = hr.DiskFeature(tmp_path / "x.npy")
    feature = hr.TieredFeature(source, RANK, sizes, devices=devices(sizes["num_devices"]), stand_ins=True)
    nothing = feature.read(torch.empty(0, dtype=torch.int64))
    assert nothing.rows.shape == (0, 3)
    assert nothing.counts == dict.fromkeys(feature.read(torch.arange(N)).counts, 0)


def test_every_place_with_rows_is_counted_in_every_read():
    feature = tiered(tier_sizes(replicated=5, interleaved=12, host=10, num_devices=3), place=DISK)
    _, counts = feature.read(RANK.argsort()[:2])
    assert counts == {"bytes_from_cuda": 2 * feature.row_bytes, "bytes_from_peer": 0, "bytes_from_pinned": 0}


def test_every_device_has_the_replicated_rows_and_its_share_of_the_next():
    sizes = tier_sizes(replicated=5, interleaved=11, host=0, num_devices=3)
    by_rank = RANK.argsort().tolist()
    router = tiered(sizes).router
    assert [router.ids_at(device).tolist() for device in range(3)] == [
        by_rank[:5] + by_rank[5 + device : 16 : 3] for device in range(3)
    ]
    assert [len(router.ids_at(device)) for device in range(3)] == [9, 9, 8]


def test_dealing_rows_out_balances_the_devices_and_blocks_would_not():
    count = 4_000
    popularity = torch.arange(1, count + 1, dtype=torch.float64) ** -0.5
    reads = torch.multinomial(popularity, 100_000, replacement=True, generator=torch.Generator().manual_seed(1))
    sizes = tier_sizes(interleaved=count, num_devices=2)
    dealt = hr.TieredFeature(
        in_memory(torch.zeros(count, 1)), torch.arange(count), sizes, devices=devices(2), stand_ins=True
    )
    served = float((dealt.router.locate(reads).place == 0).double().mean())
    in_blocks = float((reads < count // 2).double().mean())
    # Of 100,000 reads the share is known to 0.0016; the first of two neighbouring ranks is read a little more often.
    assert abs(served - 0.5) < 0.015
    assert in_blocks > 0.65


def test_a_loader_reads_through_tiers():
    x = store().node["x"]
    rank = torch.randperm(NUM_NODES)
    feature = hr.TieredFeature(x, rank, tier_sizes(10, 30, 0, 2), devices=devices(2), stand_ins=True)
    plan = items().sample_neighbor(graph(), [4, 3])
    plain = plan.fetch_feature(store(), node=["x"]).loader()
    loader = plan.fetch_feature(hr.FeatureStore(node={"x": feature}), node=["x"]).loader()
    loader.load_state_dict(plain.state_dict())  # the same fingerprint
    assert [batch.digest() for batch in loader] == [batch.digest() for batch in plain]
    stats = loader.stats()["fetch_feature"]
    assert stats["bytes_from_cuda"] + stats["bytes_from_peer"] + stats["bytes_from_cpu"] == stats["bytes"]
    assert "10 at each device, 30 over devices" in repr(feature)


def test_the_place_is_that_of_the_rows_that_stay():
    assert tiered(tier_sizes(host=20), place=DISK).place == DISK
    assert tiered(tier_sizes(host=N), place=DISK).place == CPU
    assert tiered(tier_sizes(host=20)).place == CPU


def test_passes_see_that_rows_come_from_disk():
    rank = torch.randperm(NUM_NODES)
    plan = items().sample_neighbor(graph(), [4, 3])
    expected = [batch.digest() for batch in plan.fetch_feature(store(), node=["x"]).loader()]
    for host, name in ((50, "fetch_ahead"), (NUM_NODES, "fetch_feature")):
        tiers = hr.TieredFeature(store_on_disk().node["x"], rank, tier_sizes(host=host))
        fetched = plan.fetch_feature(hr.FeatureStore(node={"x": tiers}), node=["x"])
        assert names(fetched, hr.Machine(cores=1))[-1] == name
        text = fetched.explain(machine=hr.Machine(cores=1, memory=1 << 20))
        assert ("tiered_cache" in passes(text)) == (host < NUM_NODES)
        for memory in (0, 1 << 12, 1 << 20):  # reads shared by several batches, and a cache of all rows
            assert [batch.digest() for batch in fetched.loader(machine=hr.Machine(memory=memory))] == expected


def test_first_reads_at_once_fill_the_places_once():
    calls = []

    class Counting(hr.FeatureSource):
        dtype, shape = ROWS.dtype, tuple(ROWS.shape)

        def read(self, ids, *, num_threads=1, to=CPU):
            calls.append(len(ids))
            return hr.Rows(ROWS[ids])

        def content_digest(self):
            return "rows"

    feature = hr.TieredFeature(Counting(), RANK, tier_sizes(host=20))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: feature.read(torch.arange(N)).rows, range(8)))
    assert all(torch.equal(rows, ROWS) for rows in found)
    assert sorted(calls) == [20, *[N - 20] * 8]


def test_rows_of_a_source_that_cannot_place_them():
    class Squares:
        num_rows, row_bytes, dtype, shape = N, 8, torch.int64, (N,)

        def read(self, ids, *, num_threads=1, to=CPU):
            return hr.Rows(ids.long() ** 2, {"computed": len(ids)})

        def content_digest(self):
            return "squares"

    feature = hr.TieredFeature(Squares(), RANK, tier_sizes(host=20))
    rows, counts = feature.read(torch.arange(N))
    assert rows.tolist() == [i * i for i in range(N)]
    assert counts == {"bytes_from_cpu": 20 * 8, "computed": N - 20}


def unpickled(feature: hr.TieredFeature) -> hr.TieredFeature:
    return pickle.loads(pickle.dumps(feature))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("copied", [copy.deepcopy, unpickled])
def test_copies_fill_places_of_their_own(copied, tmp_path):
    np.save(tmp_path / "x.npy", ROWS.numpy())
    source = hr.DiskFeature(tmp_path / "x.npy")
    feature = hr.TieredFeature(source, RANK, tier_sizes(5, 12, 10, 3), devices=devices(3), here=1, stand_ins=True)
    unread = copied(feature)
    rows, counts = feature.read(torch.arange(N))
    for other in (unread, copied(feature)):
        assert other == feature
        assert torch.equal(other.read(torch.arange(N)).rows, rows)
        assert other.read(torch.arange(N)).counts == counts


def test_ids_without_a_row_are_refused():
    for ids in ([N], [-1]):
        with pytest.raises(hr.InputError, match="has no row"):
            tiered(tier_sizes(host=5)).read(torch.tensor(ids))
    with pytest.raises(hr.InputError, match="to=cpu"):
        tiered(tier_sizes(host=5)).read(torch.tensor([0]), to=DISK)
