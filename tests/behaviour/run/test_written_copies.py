"""What torch does not count is written between epochs: copies of rows are dropped, or the write is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ranks import partition

import headrace as hr

from plans import RowsOnDisk

NUM_ROWS = 300
MACHINES = {cores: hr.Machine(cores=cores, memory=1 << 30) for cores in (1, 2)}


def rows(number=0):
    return np.full((NUM_ROWS, 2), number, np.float32)


def plan_of(source):
    return hr.ItemSampler(NUM_ROWS, batch_size=30).fetch_feature(hr.FeatureStore(node={"x": source}), node=["x"])


def values(loader):
    return {float(value) for batch in loader for value in batch.x.unique()}


def of_policy(policy):
    if policy == "static":
        return lambda x: hr.CachedFeature(x, policy, ids=torch.arange(100))
    return lambda x: hr.CachedFeature(x, policy, rows=NUM_ROWS)


class InPlace(hr.FeatureSource):
    """Rows in place, of a class of the user's."""

    def __init__(self, x):
        self._x = x

    @property
    def rows_in_place(self):
        return torch.from_numpy(self._x)


def reordered(source):
    graph = hr.Graph.from_coo([0], [1], num_nodes=NUM_ROWS)
    store = hr.FeatureStore(node={"x": source})
    return hr.reorder(graph, store, order=torch.arange(NUM_ROWS).flip(0)).store.node["x"]


CACHES = {
    **{policy: of_policy(policy) for policy in ("static", "lru", "clock", "s3-fifo", "sieve", "look-ahead")},
    "of a cache": lambda x: hr.CachedFeature(hr.CachedFeature(x, rows=NUM_ROWS), "lru", rows=50),
    "of an own source": lambda x: hr.CachedFeature(InPlace(x), rows=NUM_ROWS),
    "in a reordered feature": lambda x: reordered(hr.CachedFeature(x, rows=NUM_ROWS)),
}


@pytest.mark.parametrize("cores", MACHINES)
@pytest.mark.parametrize("made", CACHES.values(), ids=CACHES)
def test_caches_are_emptied(made, cores):
    x = rows()
    plan = plan_of(made(x))
    with plan.loader(machine=MACHINES[cores]) as loader:
        for epoch in range(3):
            x[:] = epoch
            assert values(loader) == {epoch}
    x[7] = 9
    with plan.loader(machine=MACHINES[cores]) as loader:
        assert values(loader) == {2, 9}


def test_copies_stay_where_nothing_was_written():
    cache = hr.CachedFeature(rows(), rows=NUM_ROWS)
    with plan_of(cache).loader(machine=MACHINES[1]) as loader:
        for _ in range(3):
            assert values(loader) == {0}
    assert cache.stats()["misses"] == NUM_ROWS


def test_reads_before_the_first_epoch():
    x = rows()
    cache = hr.CachedFeature(x, rows=NUM_ROWS)
    cache.read(torch.arange(NUM_ROWS))
    x += 1
    assert values(plan_of(cache).loader()) == {1}


def test_features_without_copies_are_not_compared():
    class NeverCompared(InPlace):
        def content_mark(self):
            raise AssertionError

    x = rows()
    with plan_of(NeverCompared(x)).loader() as loader:
        for epoch in range(2):
            x[:] = epoch
            assert values(loader) == {epoch}


@pytest.mark.parametrize("own", [False, True])
def test_files_on_disk(tmp_path, own):
    np.save(tmp_path / "x.npy", rows())
    file = hr.DiskFeature(tmp_path / "x.npy")
    plan = plan_of(hr.CachedFeature(file, rows=NUM_ROWS) if own else file)
    with plan.loader(machine=MACHINES[1]) as loader:
        assert values(loader) == {0}
        assert values(loader) == {0}
        np.lib.format.open_memmap(tmp_path / "x.npy", "r+")[:] = 1
        with (tmp_path / "x.npy").open("r+b") as written:
            written.write(b"\x93")
        for _ in range(2):
            with pytest.raises(hr.InputError, match="written to since"):
                next(iter(loader))


@pytest.mark.parametrize("row", range(5))
def test_large_memory_maps(tmp_path, row):
    """By a sample, which has not all of these rows, and the time of the last change."""
    np.save(tmp_path / "x.npy", np.zeros((1 << 15, 160), np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    plan = hr.ItemSampler(NUM_ROWS, batch_size=30)
    store = hr.FeatureStore(node={"x": hr.CachedFeature(mapped, rows=NUM_ROWS)})
    with plan.fetch_feature(store, node=["x"]).loader() as loader:
        assert values(loader) == {0}
        with (tmp_path / "x.npy").open("r+b") as file:
            file.seek(mapped.offset + row * mapped.strides[0])
            file.write(np.ones(160, np.float32).tobytes())
        assert values(loader) == {0, 1}


def tiers_of(x):
    """Tiers of which some rows are in memory, and the others on disk."""
    graph = hr.Graph.from_coo([0], [1], num_nodes=NUM_ROWS)
    store = hr.FeatureStore(node={"x": RowsOnDisk(torch.from_numpy(x))})
    plan = hr.plan_tiers(store, graph, hr.Machine(memory=x.nbytes), torch.arange(NUM_ROWS))
    feature = plan.apply(store).node["x"]
    assert 0 < plan.sizes.host < NUM_ROWS
    return feature


def test_tiers_and_copies_at_other_ranks_refuse():
    x = rows()
    tiers = tiers_of(x)
    with plan_of(tiers).loader() as loader:
        assert values(loader) == {0}
        assert values(loader) == {0}
        x += 1
        for _ in range(2):
            with pytest.raises(hr.InputError, match=r"TieredFeature.*written since; make the TieredFeature anew"):
                next(iter(loader))
    owners = partition("hash", 2)
    whole = torch.zeros(owners.num_nodes, 2)
    own = whole[owners.owned(0)].numpy()
    others = owners.owned(1)[:5]
    shard = hr.ShardedFeature(own, owners, 0, cached=others, cached_rows=whole[others])
    shard.check_copies()
    own += 1
    with pytest.raises(hr.InputError, match=r"copies.*written since.*without cached="):
        shard.check_copies()


@pytest.mark.parametrize("write", [lambda m: m[:200].fill_(True), lambda m: m.numpy().__setitem__(150, True)])
@pytest.mark.parametrize("by_type", [False, True])
def test_masks_of_items(write, by_type):
    mask = torch.zeros(NUM_ROWS, dtype=torch.bool)
    mask[:100] = True
    plan = hr.ItemSampler({"a": mask} if by_type else mask, batch_size=50)
    if by_type:
        typed = hr.Graph.from_coo(
            [0], [1], num_nodes=NUM_ROWS, node_types={"a": NUM_ROWS}, edge_types={("a", "to", "a"): 1}
        )
        plan = plan.sample_neighbor(typed, [2])
    with plan.loader() as loader:
        assert sum(batch.num_seeds for batch in loader) == 100
        assert sum(batch.num_seeds for batch in loader) == 100
        write(mask)
        for _ in range(2):
            with pytest.raises(hr.InputError, match=r"mask of items to stay as it was.*make a new plan"):
                next(iter(loader))
