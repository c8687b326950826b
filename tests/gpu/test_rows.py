"""Rows of features on a GPU: caches, whole features and tiers give the rows of the host, and count their reads."""

from __future__ import annotations

import pytest
import torch

import headrace as hr
from headrace.ops import TierSizes

from plans import NUM_NODES, graph, items, store

pytestmark = pytest.mark.twins


class OnlyReads:
    """A source that a GPU cannot read in place."""

    def __init__(self, rows):
        self.rows = rows
        self.num_rows, self.dtype, self.shape = len(rows), rows.dtype, tuple(rows.shape)
        self.row_bytes = rows[:1].nbytes

    def read(self, ids, *, num_threads=1, to=None):
        return hr.Rows(self.rows[ids.cpu().long()], {"bytes_from_disk": len(ids) * self.row_bytes})

    def content_digest(self):
        return "rows"


def cuda(gpu):
    return hr.Place("cuda", gpu.device.index or 0)


@pytest.mark.parametrize("rows", [7, NUM_NODES // 2, NUM_NODES], ids=["few", "half", "whole"])
@pytest.mark.parametrize("in_place", [False, True], ids=["read", "in place"])
def test_caches_give_the_rows_of_their_source(rows, in_place, gpu):
    x = torch.arange(6.0 * NUM_NODES).view(NUM_NODES, 6)
    cache = hr.CachedFeature(gpu.host(x) if in_place else OnlyReads(x), place="cuda", rows=rows)
    random, total = torch.Generator().manual_seed(0), 0
    for size in (0, 1, 30, 90, 500, 30, 90):
        ids = torch.randint(NUM_NODES, (size,), generator=random)
        gpu.delay()
        found, _ = cache.read(ids, to=cuda(gpu))
        assert found.device == gpu.device
        assert torch.equal(found.cpu(), x[ids])
        total += size
    stats = cache.stats()
    assert stats["hits"] + stats["misses"] >= min(total, NUM_NODES)
    if not in_place:
        return
    cache.update(torch.tensor([3, 5]), torch.full((2, 6), -1.0))
    changed = cache.read(torch.tensor([3, 4, 5]), to=cuda(gpu)).rows.cpu()
    assert torch.equal(changed, torch.stack([torch.full((6,), -1.0), x[4], torch.full((6,), -1.0)]))


@pytest.mark.parametrize("rows", [20, NUM_NODES])
def test_plans_with_a_cache_give_the_batches_without(rows, gpu):
    x = store().node["x"].read(torch.arange(NUM_NODES)).rows
    cached = hr.FeatureStore(node={"x": hr.CachedFeature(x, place="cuda", rows=rows)})
    sampled = items().sample_neighbor(graph(), [4, 3])
    with sampled.fetch_feature(cached, node=["x"]).copy_to("cuda").loader(machine=gpu.machine) as loader:
        found = [batch.digest() for _ in range(2) for batch in loader]
    with sampled.fetch_feature(store(), node=["x"]).loader(machine=hr.Machine(cores=2)) as loader:
        assert found == [batch.digest() for _ in range(2) for batch in loader]


def test_tiers_give_the_rows_of_the_host(gpu):
    x = torch.arange(5.0 * NUM_NODES).view(NUM_NODES, 5)
    sizes = TierSizes(replicated=60, interleaved=0, num_devices=1, host=NUM_NODES - 60)
    order = torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(1))
    tiers = hr.TieredFeature(x, order, sizes, devices=[cuda(gpu)])
    tiers.prepare(cuda(gpu))
    try:
        for size in (0, 1, 400):
            ids = torch.randint(NUM_NODES, (size,))
            assert torch.equal(tiers.read(ids, to=cuda(gpu)).rows.cpu(), x[ids])
    finally:
        tiers.close()
