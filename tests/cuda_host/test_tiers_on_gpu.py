"""Tiers in memory of devices, which stand-ins are here: rows as by plain indexing, bytes by where they came from."""

from __future__ import annotations

import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.cuda.faults import Faults
from headrace.cuda.rows import Tables
from headrace.ops import TierSizes

from cuda_host.stand_in import StandIn
from plans import graph, items

CUDA = [hr.Place("cuda", number) for number in range(3)]


@pytest.fixture(autouse=True)
def gpu():
    backend = StandIn()
    with stand_in(backend):
        yield backend


@pytest.mark.parametrize("here", [0, 2])
@pytest.mark.parametrize("sizes", [(3, 6, 0), (0, 7, 5), (4, 0, 16), (5, 5, 10), (0, 0, 0), (20, 0, 0)])
def test_rows_of_any_mix_of_places(sizes, here, gpu):
    x = torch.arange(80.0).reshape(20, 4)
    rank = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    tiers = hr.TieredFeature(x, rank, TierSizes(*sizes, num_devices=3), devices=CUDA, here=here)
    tiers.prepare(CUDA[here])
    for ids in (torch.tensor([0, 19, 7, 7, 3]), torch.arange(20), torch.empty(0, dtype=torch.int64)):
        rows, counts = tiers.read(ids, to=CUDA[here])
        assert torch.equal(rows, x[ids])
        ranks = rank[ids]
        own = sum(
            bool(r < sizes[0]) or (sizes[0] <= r < sizes[0] + sizes[1] and (r - sizes[0]) % 3 == here) for r in ranks
        )
        assert counts.get("bytes_from_cuda", 0) == own * 16
        assert sum(counts.values()) == len(ids) * 16
    assert any("gather_tables" in launched for launched in gpu.launches)


def test_a_read_waits_once_and_lists_no_tables(monkeypatch):
    """Where rows are is known behind the one wait, and they are copied while the host goes on."""
    x = torch.arange(80.0).reshape(20, 4)
    tiers = hr.TieredFeature(x, torch.arange(20), TierSizes(4, 4, 4, num_devices=3), devices=CUDA)
    tiers.prepare(CUDA[0])
    waits = []
    check = Faults.check

    def counting(self, *sizes):
        waits.append(self)
        return check(self, *sizes)

    monkeypatch.setattr(Faults, "check", counting)
    monkeypatch.setattr(Tables, "on", None)
    assert torch.equal(tiers.read(torch.arange(20), to=CUDA[0]).rows, x)
    assert len(waits) == 1
    with pytest.raises(hr.InputError, match=r"ids\[1\] = 20 has no row: expected 0 <= id < num_rows = 20"):
        tiers.read(torch.tensor([3, 20]), to=CUDA[0])


@pytest.mark.parametrize("sizes", [(3, 6, 0), (4, 0, 16), (5, 5, 10), (20, 0, 0), (0, 0, 12)])
def test_rows_that_were_moved_are_read_to_the_cpu_from_the_source(sizes):
    x = torch.arange(80.0).reshape(20, 4)
    rank = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    tiers = hr.TieredFeature(x, rank, TierSizes(*sizes, num_devices=3), devices=CUDA)
    before = tiers.read(torch.arange(20)).counts
    tiers.prepare(CUDA[0])
    assert sum(map(len, tiers._tables)) == sizes[2]  # no copies of rows that are on devices
    for ids in (torch.tensor([0, 19, 7, 7, 3]), torch.arange(20, dtype=torch.int32), torch.empty(0, dtype=torch.int64)):
        rows, counts = tiers.read(ids)
        assert torch.equal(rows, x[ids.long()])
        assert sum(counts.values()) == len(ids) * 16
        assert not counts.get("bytes_from_cuda")
    out, places = torch.zeros(40, 4), torch.randperm(40)[:20]
    tiers.read_into(torch.arange(20), out, places=places)
    assert torch.equal(out[places], x)
    assert set(tiers.read(torch.arange(20)).counts) == set(tiers.read(torch.arange(0)).counts)
    assert sum(before.values()) == 20 * 16


def test_a_device_without_a_number_is_the_current_one(monkeypatch):
    one, here = TierSizes(20, num_devices=1), [hr.Place("cuda", 1)]
    tiers = hr.TieredFeature(torch.zeros(20, 4), torch.arange(20), one, devices=here)
    for current in (0, 1):
        monkeypatch.setattr("headrace.pipeline.storage.tiered_feature.current_gpu", lambda number=current: number)
        assert tiers.reads_to(hr.Place("cuda")) == (current == 1)
    assert tiers.reads_to(hr.Place("cuda", 1))
    assert not tiers.reads_to(hr.Place("cuda", 0))


def test_devices_that_do_not_reach_each_other(monkeypatch):
    monkeypatch.setattr("headrace.pipeline.storage.tiers.is_readable", lambda table, device: False)
    tiers = hr.TieredFeature(torch.zeros(20, 4), torch.arange(20), TierSizes(3, 0, 0, 3), devices=CUDA)
    with pytest.raises(hr.HeadraceError, match=r"cannot read memory of .* in place; place rows on devices that reach"):
        tiers.prepare(CUDA[0])
    assert torch.equal(tiers.read(torch.arange(20)).rows, torch.zeros(20, 4))


def test_a_plan_reads_through_them():
    x = torch.randn(200, 8)
    rank = torch.arange(200)
    tiers = hr.TieredFeature(x, rank, TierSizes(40, 0, 0, num_devices=1), devices=CUDA[:1])
    plain = items().sample_neighbor(graph(), [5, 3])
    expected = plain.fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])
    plan = plain.fetch_feature(hr.FeatureStore(node={"x": tiers}), node=["x"]).copy_to("cuda:0")
    with plan.loader(machine=hr.Machine(cores=2, gpus=1)) as loader, expected.loader(machine=hr.Machine()) as right:
        assert "fetch_to" in loader.explain()
        assert [batch.digest() for batch in loader] == [batch.digest() for batch in right]
        assert "bytes_from_cuda" in str(loader.stats())


def test_rows_that_stay_on_disk_are_not_read_by_a_gpu(tmp_path):
    import numpy as np

    np.save(tmp_path / "x.npy", np.zeros((20, 4), np.float32))
    disk = hr.DiskFeature(tmp_path / "x.npy")
    some = hr.TieredFeature(disk, torch.arange(20), TierSizes(3, 0, 4, num_devices=1), devices=CUDA[:1])
    every = hr.TieredFeature(disk, torch.arange(20), TierSizes(3, 0, 17, num_devices=1), devices=CUDA[:1])
    assert not some.reads_to(CUDA[0])
    assert every.reads_to(CUDA[0])
    assert every.reads_to(hr.Place("cuda"))
    assert not every.reads_to(CUDA[1])
    with pytest.raises(hr.InputError, match="got to=cuda:0"):
        some.read(torch.tensor([1]), to=CUDA[0])


def test_without_a_gpu(monkeypatch):
    from headrace.cuda import backend

    monkeypatch.setattr(backend, "_stand_in", None)
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(hr.InputError, match="need a GPU, and torch finds none here"):
        hr.TieredFeature(torch.zeros(4, 2), torch.arange(4), TierSizes(1, num_devices=1), devices=CUDA[:1])
