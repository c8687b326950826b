"""The graphs that examples train on, from every kind of source."""

from __future__ import annotations

import dataclasses
import sys
import types

import numpy as np
import pytest
import torch

import headrace as hr

pytestmark = pytest.mark.slow

EPOCHS = 200


@pytest.fixture
def datasets(examples):
    import datasets

    return datasets


def check(data):
    """Check what every training run takes for granted."""
    assert data.src.shape == data.dst.shape
    assert data.x.dtype == torch.float32
    assert data.y.dtype == torch.int64
    parts = torch.cat([data.train, data.val, data.test])
    assert parts.unique().numel() == parts.numel()
    assert data.y[parts].min() >= 0
    hr.Graph.from_coo(data.src, data.dst, num_nodes=data.num_nodes)


def test_block_model(datasets):
    data = datasets.block_model(num_nodes=2000, num_classes=5, mean_degree=20, mixing=0.3, seed=3)
    check(data)
    again = datasets.block_model(num_nodes=2000, num_classes=5, mean_degree=20, mixing=0.3, seed=3)
    assert torch.equal(data.src, again.src)
    assert torch.equal(data.x, again.x)
    assert data.num_classes == 5
    # Undirected, without repeats and self-loops.
    pairs = set(zip(data.src.tolist(), data.dst.tolist(), strict=True))
    assert len(pairs) == data.src.numel()
    assert pairs == {(dst, src) for src, dst in pairs}
    assert (data.src != data.dst).all()
    # Homophily is 1 - mixing, plus mixing's own share of same-class edges; propensities give hubs.
    same = (data.y[data.src] == data.y[data.dst]).double().mean()
    assert 0.65 < same < 0.85
    degrees = torch.bincount(data.dst, minlength=2000)
    assert degrees.max() > 4 * degrees.double().mean()


def archive(path, **changes):
    arrays = {
        "edge_index": np.array([[0, 1], [1, 2]], dtype=np.int32),
        "x_indptr": np.array([0, 2, 3, 3]),
        "x_indices": np.array([0, 2, 1], dtype=np.int32),
        "x_data": np.array([3, 4, 1], dtype=np.uint8),
        "x_shape": np.array([3, 4]),
        "y": np.array([0, 1, -1]),
        "train_mask": np.array([True, False, False]),
        "val_mask": np.array([False, True, False]),
        "test_mask": np.array([False, False, False]),
        "meta": np.array("{}"),
    }
    np.savez(path, **{key: value for key, value in {**arrays, **changes}.items() if value is not None})
    return str(path)


def test_archive(datasets, tmp_path):
    data = datasets.load(archive(tmp_path / "small.npz"))
    check(data)
    assert data.name == "small"
    assert data.x.tolist() == [[0.6000000238418579, 0, 0.800000011920929, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert data.num_classes == 2
    with pytest.raises(SystemExit, match="has no y, test_mask"):
        datasets.load(archive(tmp_path / "bad.npz", y=None, test_mask=None))


def test_wide_features_are_projected_and_keep_their_angles(datasets):
    random = np.random.default_rng(0)
    num_rows, num_columns = 50, datasets.WIDEST_DENSE_FEATURES + 1
    dense = torch.from_numpy((random.random((num_rows, num_columns)) < 0.02).astype(np.float32))
    row, column = dense.nonzero().T
    arrays = {
        "x_shape": torch.tensor([num_rows, num_columns]),
        "x_indptr": torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(row, minlength=num_rows).cumsum(0)]),
        "x_indices": column.int(),
        "x_data": torch.ones(column.numel(), dtype=torch.uint8),
    }
    x = datasets.dense_features(arrays)
    assert x.shape == (num_rows, datasets.PROJECTED_FEATURES)
    exact = torch.nn.functional.normalize(dense)
    assert ((x @ x.T) - (exact @ exact.T)).abs().max() < 0.25
    assert ((x @ x.T) - (exact @ exact.T)).square().mean().sqrt() < 0.06


def pyg_data(**masks):
    data = pytest.importorskip("torch_geometric.data").Data(
        x=torch.rand(10, 3), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.arange(10) % 2
    )
    for name, mask in masks.items():
        data[name] = mask
    return data


def test_names_that_pyg_knows(datasets, monkeypatch):
    pyg = pytest.importorskip("torch_geometric.datasets")
    number = torch.arange(10)
    masks = {"train_mask": number < 3, "val_mask": number == 3, "test_mask": number > 5}
    monkeypatch.setattr(pyg, "Planetoid", lambda root, name: [pyg_data(**masks)])
    data = datasets.load("Cora")
    check(data)
    assert [part.numel() for part in (data.train, data.val, data.test)] == [3, 1, 4]
    monkeypatch.setattr(pyg, "Amazon", lambda root, name: [pyg_data()])
    data = datasets.load("Computers")
    check(data)
    assert [part.numel() for part in (data.train, data.val, data.test)] == [6, 2, 2]
    monkeypatch.setattr(pyg, "Flickr", lambda root: [pyg_data(**masks)])
    check(datasets.load("Flickr"))
    with pytest.raises(SystemExit, match="not 'sbm', a"):
        datasets.load("Karate")


def test_names_that_ogb_knows(datasets, monkeypatch):
    class NodePropPredDataset:
        def __init__(self, name, root):
            assert name == "ogbn-arxiv"

        def __getitem__(self, index):
            graph = {
                "edge_index": np.array([[0, 1], [1, 2]]),
                "node_feat": np.zeros((3, 2), dtype=np.float32),
                "num_nodes": 3,
            }
            return graph, np.array([[0], [1], [1]])

        def get_idx_split(self):
            return {"train": np.array([0]), "valid": np.array([1]), "test": np.array([2])}

    module = types.SimpleNamespace(NodePropPredDataset=NodePropPredDataset)
    monkeypatch.setitem(sys.modules, "ogb", types.SimpleNamespace(nodeproppred=module))
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", module)
    data = datasets.load("ogbn-arxiv")
    check(data)
    assert set(zip(data.src.tolist(), data.dst.tolist(), strict=True)) == {(0, 1), (1, 0), (1, 2), (2, 1)}


def test_plain_layer_equals_pygs(node_classification):
    pytest.importorskip("torch_geometric")
    torch.manual_seed(0)
    plain, pyg = node_classification.SageLayer(4, 3), node_classification.PygSageLayer(4, 3)
    pyg.layer.lin_rel.weight, pyg.layer.lin_rel.bias = plain.neighbors.weight, plain.own.bias
    pyg.layer.lin_root.weight = plain.own.weight
    graph = hr.Graph.from_coo(torch.randint(0, 20, (50,)), torch.randint(0, 15, (50,)), num_nodes=20)
    store = hr.FeatureStore(node={"x": torch.randn(20, 4)})
    for name, sample in node_classification.SAMPLERS.items():
        plan = sample(hr.ItemSampler(20, batch_size=6), graph, [3]).fetch_feature(store, node=["x"])
        for batch in plan.loader():
            (block,) = batch.blocks
            assert (block.weight is None) == (name in ("neighbor", "labor"))
            torch.testing.assert_close(plain(block, batch.x), pyg(block, batch.x))


@pytest.mark.parametrize("sampler", ["neighbor", "labor", "labor-1", "labor-star", "ladies", "pladies"])
def test_layers_estimate_the_mean_over_all_neighbours(node_classification, sampler):
    """The mean over 200 epochs comes within 5 standard errors (0.085 at most) and a bias of 0.03 of the exact mean.

    Features grow with the source's number of out-edges, which decides its probability. So a plain mean without weights
    is off by 0.13 with LABOR-* and by 0.27 with (P)LADIES, 8 standard errors and more. The bias is that of any
    quotient of estimates such as Hajek's; it falls as more of the 30 in-edges are sampled.
    """
    generator = torch.Generator().manual_seed(1)
    num_nodes, num_edges = 60, 1_800
    src = (torch.rand(num_edges, generator=generator) ** 2 * num_nodes).long()
    dst = torch.randint(0, num_nodes, (num_edges,), generator=generator)
    graph = hr.Graph.from_coo(src, dst, num_nodes=num_nodes)
    x = torch.bincount(src, minlength=num_nodes).float()[:, None]
    x /= x.std()
    store = hr.FeatureStore(node={"x": x})
    layer = node_classification.SageLayer(1, 1)
    with torch.no_grad():
        layer.own.weight.zero_()
        layer.own.bias.zero_()
        layer.neighbors.weight.fill_(1)
    everyone = hr.ItemSampler(num_nodes, batch_size=20, seed=2)
    exact = outputs(layer, everyone.sample_in_subgraph(graph).fetch_feature(store, node=["x"]), 1)
    sampled = node_classification.SAMPLERS[sampler](everyone, graph, [40] if "ladies" in sampler else [20])
    sampled = sampled.fetch_feature(store, node=["x"])
    errors = (outputs(layer, sampled, EPOCHS) - exact).mean(1)  # of one epoch each: these are independent
    limit = 5 * errors.std() / EPOCHS**0.5 + 0.03
    assert errors.mean().abs() < limit
    if sampler in ("labor-star", "ladies", "pladies"):
        unweighted = outputs(layer, sampled.transform(without_weights), EPOCHS)
        assert (unweighted - exact).mean().abs() > limit


def outputs(layer, plan, epochs):
    """Return the layer's outputs for all seeds, [epochs, num_nodes]."""
    loader = plan.loader(prefetch=False)
    with torch.no_grad():
        epoch_outputs = [
            torch.cat([layer(batch.blocks[0], batch.x).reshape(-1) for batch in loader]) for _ in loader.epochs(epochs)
        ]
    return torch.stack(epoch_outputs)


def without_weights(batch):
    return batch.replace(blocks=tuple(dataclasses.replace(block, weight=None) for block in batch.blocks))


def test_gcn_takes_no_importance_weights(node_classification):
    with pytest.raises(SystemExit):
        node_classification.parse(["--model", "gcn", "--sampler", "ladies"])


def test_the_accuracy_table_names_files_that_are_there(examples, shared_data):
    import accuracy

    for name, model, epochs, promised in accuracy.RUNS:
        assert (shared_data / f"{name}.npz").exists()
        assert model in ("sage", "gcn")
        assert epochs > 0
        assert promised < 1
