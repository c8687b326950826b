"""Features under new ids."""

from __future__ import annotations

import pytest
import torch
from explained import passes
from tier_sizes import tier_sizes

import headrace as hr

from plans import NUM_NODES, RowsOnDisk, graph, store, store_on_disk

CPU, DISK = hr.Place("cpu"), hr.Place("disk")
X = torch.arange(12.0).reshape(4, 3)
ORDER = torch.tensor([2, 0, 3, 1])
RING = hr.Graph.from_coo([0, 1, 2, 3], [1, 2, 3, 0])


def reordered(source: object, order: torch.Tensor = ORDER) -> hr.FeatureSource:
    """The rows of a source under new ids."""
    features = hr.FeatureStore(node={"x": source})
    return hr.reorder(RING, features, order=order, original_ids=False).store.node["x"]


def test_rows_follow_the_order():
    rows = reordered(X)
    assert torch.equal(rows.read(torch.arange(4)).rows, X[ORDER])
    assert torch.equal(rows.read(torch.tensor([3, 3, 0])).rows, X[[1, 1, 2]])
    assert (rows.num_rows, rows.row_bytes, rows.dtype, rows.shape) == (4, 12, torch.float32, (4, 3))
    others = [reordered(X, ORDER.flip(0)), reordered(X + 1)]
    assert len({source.content_digest() for source in (rows, *others)}) == 3


def test_ids_without_a_row_are_refused():
    for source in (X, RowsOnDisk(X)):
        with pytest.raises(hr.InputError):
            reordered(source).read(torch.tensor([4]))


def test_rows_change_by_their_new_ids():
    x = X.clone()
    source = hr.CachedFeature(x, "lru", rows=4)
    rows = hr.CachedFeature(reordered(source), "lru", rows=4)
    rows.read(torch.arange(4))
    rows.update(torch.tensor([3, 0]), torch.zeros(2, 3))
    assert x.any(dim=1).tolist() == [True, False, False, True]
    assert rows.read(torch.arange(4)).rows.any(dim=1).tolist() == [False, True, True, False]
    with pytest.raises(hr.InputError):
        reordered(source).update(torch.tensor([4]), torch.zeros(1, 3))
    with pytest.raises(hr.InputError, match=r"update: expected a source with .* TieredFeature"):
        reordered(hr.TieredFeature(x, ORDER, tier_sizes(host=2))).update(torch.tensor([1]), torch.zeros(1, 3))


def test_they_are_where_their_source_is():
    order = torch.arange(4)
    assert reordered(X, order).place == CPU
    assert reordered(RowsOnDisk(X), order).place == DISK

    class Placeless:
        num_rows, row_bytes, dtype, shape = 4, 8, torch.int64, (4,)

        def read(self, ids, *, num_threads=1, to=CPU):
            return hr.Rows(ids)

        def content_digest(self):
            return "ids"

    rows = reordered(Placeless(), order)
    assert (rows.place, rows.foresight) == (CPU, 0)
    rows.expect(order)  # no more than a source that gains nothing by it, they take this in silence
    rows.expect_nothing()


def test_a_cache_learns_of_the_reads_to_come_by_its_own_ids():
    cache = hr.CachedFeature(X, "look-ahead", rows=2)
    rows = reordered(cache)
    assert rows.foresight == cache.foresight > 0
    reads = [torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([0])]
    for ids in reads:
        rows.expect(ids)
    assert cache.stats()["expected"] == 3
    for ids in reads:
        assert torch.equal(rows.read(ids).rows, X[ORDER[ids]])
    assert cache.stats()["expected"] == 0
    assert cache.stats()["hits"] == 1  # row 2 of X, which was known to come again
    rows.expect(reads[0])
    rows.expect_nothing()
    assert cache.stats()["expected"] == 0


def test_passes_do_what_they_do_for_rows_on_disk():
    hot = hr.reorder(graph(), store_on_disk(), scores=torch.rand(NUM_NODES), original_ids=False)
    seeds = torch.arange(0, NUM_NODES, 2)

    def plan(features: hr.FeatureStore) -> hr.Plan:
        items = hr.ItemSampler(hot.new_ids(seeds), batch_size=17, shuffle=True, seed=1)
        return items.sample_neighbor(hot.graph, [4]).fetch_feature(features, node=["x"], labels="y")

    machine = hr.Machine(cores=1, memory=1 << 20)
    assert "tiered_cache" in passes(plan(hot.store).explain(machine=machine))
    in_memory = hr.reorder(graph(), store(), order=hot.order, original_ids=False).store
    expected = [batch.digest() for batch in plan(in_memory).loader()]
    for memory in (0, 1 << 12, 1 << 20):  # reads shared by several batches, and a cache of all rows
        assert [batch.digest() for batch in plan(hot.store).loader(machine=hr.Machine(memory=memory))] == expected
