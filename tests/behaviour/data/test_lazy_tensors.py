"""Tensors whose memory is not what they stand for, and such as have no one shape: read right, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from part_files import data

import headrace as hr

IDS = torch._neg_view(torch.tensor([-1, -2, -3]))
GRAPH = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=5)


def test_ids_by_a_lazy_view_write_the_rows_that_they_name():
    source = hr.FeatureStore(node={"x": torch.ones(8, 2)}).node["x"]
    source.update(IDS, torch.zeros(3, 2))
    assert source.read(torch.arange(8)).rows[:, 0].tolist() == [1, 0, 0, 0, 1, 1, 1, 1]


def test_ids_of_data_sets(tmp_path):
    numbers, texts = [30, 10, 20, 0, 50], ["a", "b", "c", "d", "e"]
    hr.save_dataset(tmp_path / "numbers", GRAPH, ids={"node": numbers})
    ids = hr.open_dataset(tmp_path / "numbers").ids["node"]
    assert ids.external(IDS).tolist() == [10, 20, 0]
    assert ids.ours(torch._neg_view(torch.tensor([-10, -50]))).tolist() == [1, 4]
    for call in (ids.external, ids.ours):
        with pytest.raises(hr.InputError, match=r"in one dimension, got int64\[1, 1\]"):
            call(torch.tensor([[1]]))
    hr.save_dataset(tmp_path / "texts", GRAPH, ids={"node": texts})
    for odd in ([None], ["a", None], np.array([None, "a"], dtype=object)):
        with pytest.raises(hr.InputError, match="expected texts, as the ids of this type are, got None"):
            hr.open_dataset(tmp_path / "texts").ids["node"].ours(odd)


@pytest.mark.parametrize("seeds", [torch.tensor([1, 0, 2]).to_sparse(), torch.eye(3).to_sparse()])
def test_seeds_that_are_sparse(seeds):
    with pytest.raises(hr.InputError, match="of_seeds: expected dense seeds"):
        hr.MiniBatch.of_seeds(seeds, epoch=0, index=0)


@pytest.mark.parametrize(("epoch", "index", "name"), [(-1, 0, "epoch"), (0, None, "index"), (0.5, 0, "epoch")])
def test_batches_are_counted_from_0(epoch, index, name):
    with pytest.raises(hr.InputError, match=f"of_seeds: expected {name} to be an integer of at least 0"):
        hr.MiniBatch.of_seeds(torch.tensor([1]), epoch=epoch, index=index)
    batch = hr.MiniBatch.of_seeds(torch.tensor([1]), epoch=np.int64(3), index=torch.tensor(2))
    assert (type(batch.epoch), batch.epoch, batch.index) == (int, 3, 2)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_rows_that_a_source_returns_nested():
    class Nested(hr.FeatureSource):
        dtype, shape = torch.float32, (5, 2)

        def read(self, ids, *, num_threads=1, to=None):
            return hr.Rows(torch.nested.nested_tensor([torch.ones(2) for _ in ids]))

        def content_digest(self):
            return "nested"

    plan = hr.ItemSampler(5, batch_size=5).fetch_feature(hr.FeatureStore(node={"x": Nested()}), node=["x"])
    with pytest.raises(hr.InputError, match=r"Nested.read to return .* got float32 in a nested tensor"):
        list(plan.loader())


@pytest.mark.parametrize("path", ["a\0b", "no\0folder/x"])
def test_paths_with_a_nul(tmp_path, path):
    layer = torch.nn.ModuleList([])
    store = hr.FeatureStore(node={"x": torch.ones(5, 2)})
    loader = hr.ItemSampler(5, batch_size=5).loader()
    list(loader)

    def infer(out):
        hr.inference(layer, GRAPH, store, layers=[lambda h, block: h[: block.num_dst]], out=out, progress=False)

    place = str(tmp_path / path)
    for call in (
        lambda: hr.save_dataset(place, GRAPH),
        lambda: data().partition(hr.Partition.hash(data().graph.num_nodes, 2), place),
        lambda: loader.profile(f"{place}.json"),
        lambda: infer(f"{place}.npy"),
        lambda: hr.open_dataset(place),
    ):
        with pytest.raises(hr.HeadraceError, match="expected"):
            call()


def test_paths_that_no_system_has(tmp_path):
    long = str(tmp_path / ("a" * 5000))
    for call in (hr.open_dataset, lambda path: hr.open_dataset(path, rank=0)):
        with pytest.raises(hr.InputError, match=r"cannot be read|can be read"):
            call(long)
