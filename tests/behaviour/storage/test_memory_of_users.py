"""Rows of users' sources belong to their batches, and reads never wait for each other without an end."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import headrace as hr

NUM_NODES = 240
X = torch.randn(NUM_NODES, 4)


class Source(hr.FeatureSource):
    dtype, shape = X.dtype, tuple(X.shape)

    def __init__(self, rows) -> None:
        self.rows = rows

    def read(self, ids, *, num_threads=1, to=None):
        return hr.Rows(self.rows(ids))

    def content_digest(self):
        return "source"


def plan(source: object, **options: object) -> hr.Plan:
    features = hr.FeatureStore(node={"x": source})
    return hr.ItemSampler(NUM_NODES, batch_size=8).fetch_feature(features, node=["x"], **options)


def new_then_a_buffer():
    """Return what writes to one buffer from its second read on."""
    buffer, calls = torch.empty(NUM_NODES, 4), []

    def rows(ids):
        calls.append(ids)
        if len(calls) == 1:
            return X[ids]
        torch.index_select(X, 0, ids, out=buffer[: len(ids)])
        time.sleep(1e-3)
        return buffer[: len(ids)]

    return rows


def a_buffer():
    rows = new_then_a_buffer()
    rows(torch.tensor([0]))
    return rows


def arrays(num_buffers: int):
    """Return what writes to some buffers of NumPy by turns."""
    buffers, calls = [np.empty((NUM_NODES, 4), np.float32) for _ in range(num_buffers)], []

    def rows(ids):
        calls.append(ids)
        buffer = buffers[len(calls) % num_buffers][: len(ids)]
        np.take(X.numpy(), ids.numpy(), 0, out=buffer)
        time.sleep(1e-3)
        return torch.from_numpy(buffer)

    return rows


def a_ring():
    """Return what writes to parts of an array, one behind the other."""
    buffer, begins = np.empty((20 * NUM_NODES, 4), np.float32), [0]

    def rows(ids):
        part = buffer[begins[-1] : begins[-1] + len(ids)]
        begins.append((begins[-1] + len(ids)) % (19 * NUM_NODES))
        part[:] = X.numpy()[ids.numpy()]
        return torch.from_numpy(part)

    return rows


@pytest.mark.slow
@pytest.mark.parametrize("make", [new_then_a_buffer, a_buffer, lambda: arrays(1), lambda: arrays(3), a_ring])
@pytest.mark.parametrize("workers", [1, 4])
def test_a_buffer_changes_no_batch(make, workers):
    for _ in range(5):
        batches = list(plan(Source(make())).prefetch(workers=workers).loader())
        assert all(torch.equal(batch.x, X[batch.n_id]) for batch in batches)


@pytest.mark.parametrize(
    "rows",
    [
        lambda ids: X[ids],
        pytest.param(lambda ids: torch.zeros(4).expand(len(ids), 4), marks=pytest.mark.slow),  # waits 5 s
    ],
)
def test_reads_that_wait_for_each_other_go_on(rows):
    barrier = threading.Barrier(2)

    def read(ids):
        barrier.wait(timeout=30)
        return rows(ids)

    features = hr.FeatureStore(node={"x": Source(read)})

    def load(_: int) -> int:
        fetched = hr.ItemSampler(NUM_NODES, batch_size=40).fetch_feature(features, node=["x"])
        return len(list(fetched.loader(prefetch=False)))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(load, range(2))) == [6, 6]


def test_reads_may_read_the_same_source():
    table = X.clone()

    def rows(ids):
        if len(ids) == 8:
            return table[:8]
        return torch.cat([read(8), X[ids[8:]]])

    def read(num_rows):
        fetched = hr.ItemSampler(num_rows, batch_size=num_rows).fetch_feature(features, node=["x"])
        return next(iter(fetched.loader(prefetch=False))).x

    features = hr.FeatureStore(node={"x": Source(rows)})
    start = time.perf_counter()
    for _ in range(3):
        assert torch.equal(read(20), X[:20])
    assert time.perf_counter() - start < 3


def test_new_memory_of_numpy_is_copied_only_until_it_is_known():
    addresses = []

    def rows(ids):
        array = X.numpy()[ids.numpy()]
        addresses.append(array.ctypes.data)
        return torch.from_numpy(array)

    batches = list(plan(Source(rows)).loader(prefetch=False))
    assert all(torch.equal(batch.x, X[batch.n_id]) for batch in batches)
    assert [batch.x.data_ptr() for batch in batches[8:]] == addresses[8:]


def test_no_memory_is_kept_once_it_is_known():
    kept = []

    def rows(ids):
        tensor = torch.from_numpy(X.numpy()[ids.numpy()])
        kept.append(weakref.ref(tensor))
        return tensor

    features = hr.FeatureStore(node={"x": Source(rows)})
    for _ in hr.ItemSampler(NUM_NODES, batch_size=8).fetch_feature(features, node=["x"]).loader():
        pass
    gc.collect()
    assert len(kept) == NUM_NODES // 8
    assert not any(one() is not None for one in kept[:-1])


@pytest.mark.parametrize("name", ["given", "_source"])
def test_a_source_may_have_any_attributes(tmp_path, name):
    np.save(tmp_path / "x.npy", X.numpy())

    class Own(hr.DiskFeature):
        def __init__(self, path) -> None:
            super().__init__(path)
            setattr(self, name, "https://")

    batch = next(iter(plan(Own(tmp_path / "x.npy")).loader()))
    assert torch.equal(batch.x, X[batch.n_id])


def test_a_read_of_one_object_is_checked():
    source = hr.FeatureStore(node={"x": X}).node["x"]
    read = source.read
    source.read = lambda ids, **options: hr.Rows(read(ids, **options).rows[1:])
    with pytest.raises(hr.InputError, match=r"node feature 'x': expected .*read to return"):
        list(plan(source).loader())


@pytest.mark.parametrize("shape", [np.array([NUM_NODES, 4]), [NUM_NODES, 4], torch.Size([NUM_NODES, 4])])
def test_a_shape_is_a_sequence_of_integers(shape):
    source = Source(lambda ids: X[ids])
    source.shape = shape
    batch = next(iter(plan(source).loader()))
    assert torch.equal(batch.x, X[batch.n_id])


@pytest.mark.parametrize("count", [True, np.bool_(True), np.int64(1)])
def test_truth_is_counted_as_one(count):
    source = Source(lambda ids: X[ids])
    source.read = lambda ids, **options: hr.Rows(X[ids], {"hits": count})
    with plan(source).loader() as loader:
        num_batches = len(list(loader))
        assert loader.stats()["fetch_feature"]["hits"] == num_batches
