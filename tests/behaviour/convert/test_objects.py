"""Objects of PyG to data sets: batches of the data set are those of the objects themselves."""

from __future__ import annotations

import warnings

import pytest
import torch

import headrace as hr

from contracts import digests

BUYS, SEES = ("user", "buys", "item"), ("user", "sees", "item")


@pytest.fixture
def pyg():
    return pytest.importorskip("torch_geometric.data")


def plain(pyg):
    torch.manual_seed(3)
    data = pyg.Data(x=torch.rand(50, 4), y=torch.arange(50) % 3, edge_index=torch.randint(0, 50, (2, 300)))
    data.edge_attr, data.weight, data.time = torch.rand(300, 2), torch.rand(300), torch.arange(50)
    data.train_mask, data.test_mask = torch.arange(50) % 3 == 0, torch.arange(50) % 3 == 1
    data.edge_label_index, data.edge_label = torch.randint(0, 50, (2, 20)), torch.arange(20) % 2
    return data


def typed(pyg):
    torch.manual_seed(4)
    data = pyg.HeteroData()
    data["user"].x, data["item"].x, data["item"].y = torch.rand(20, 3), torch.rand(30, 5), torch.arange(30)
    data["item"].train_mask = torch.arange(30) % 2 == 0
    for name, count in ((BUYS, 80), (SEES, 60)):
        data[name].edge_index = torch.stack([torch.randint(0, 20, (count,)), torch.randint(0, 30, (count,))])
    data[BUYS].time, data[BUYS].price = torch.arange(80), torch.rand(80)
    data[BUYS].edge_label_index = data[BUYS].edge_index[:, :10]
    return data


def convert(data, folder):
    """Convert; what is left out is named by a warning, and nothing is here but attributes that some types lack."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*price.*")
        graph = hr.Graph.from_pyg(data)
        return hr.convert(data, folder, progress=False), graph


def test_batches_without_types(pyg, tmp_path):
    data = plain(pyg)
    made, graph = convert(data, tmp_path / "set")
    made.verify()
    store = hr.FeatureStore.from_pyg(data)

    def plan(items, graph, store):
        sampler = hr.ItemSampler(items, batch_size=8, shuffle=True, seed=1)
        hops = sampler.sample_neighbor(graph, [3, 2], weight="weight")
        return hops.fetch_feature(store, node=["x", "time"], edge=["edge_attr"], labels="y").loader()

    for name in ("train", "test"):
        expected = digests(plan(data[f"{name}_mask"], graph, store))
        assert digests(plan(made.items[name], made.graph, made.store)) == expected
    assert set(made.store.node) == {"x", "y", "time"}
    links = made.items["edge_label"]
    assert torch.equal(links.ids.long(), data.edge_label_index.t())
    assert torch.equal(links.labels, data.edge_label)
    assert made.notes["source"] == "PyG Data"


def test_batches_with_types(pyg, tmp_path):
    data = typed(pyg)
    made, graph = convert(data, tmp_path / "set")
    made.verify()
    store = hr.FeatureStore.from_pyg(data)

    def plan(items, graph, store):
        sampler = hr.ItemSampler(items, batch_size=4, shuffle=True, seed=1)
        node, labels = [("user", "x"), ("item", "x")], {"item": "y"}
        hops = sampler.sample_neighbor(graph, [3, 2])
        return hops.fetch_feature(store, node=node, edge=[(BUYS, "price")], labels=labels).loader()

    expected = digests(plan({"item": data["item"].train_mask}, graph, store))
    assert digests(plan(made.items["train"], made.graph, made.store)) == expected
    assert torch.equal(made.items["edge_label"].ids[BUYS].long(), data[BUYS].edge_index[:, :10].t())
    assert made.graph.edge_attrs_csc.keys() == graph.edge_attrs_csc.keys() == {"time"}


def test_labels_of_all_edges_are_features_of_edges(pyg, tmp_path):
    """Those beside links are of these, also where another type has labels of its edges."""
    data, of_types = plain(pyg), typed(pyg)
    assert "edge_label" not in hr.Graph.from_pyg(data).edge_attrs
    assert "edge_label" not in hr.FeatureStore.from_pyg(data).edge
    del data.edge_label_index
    data.edge_label = torch.arange(300) % 4
    assert torch.equal(hr.Graph.from_pyg(data).edge_attrs["edge_label"], data.edge_label)
    assert torch.equal(hr.FeatureStore.from_pyg(data).edge["edge_label"].tensor, data.edge_label)
    made, _ = convert(data, tmp_path / "plain")
    assert torch.equal(made.store.edge["edge_label"].read(torch.arange(300)).rows, data.edge_label)
    assert "edge_label" not in made.items

    of_types[BUYS].edge_label, of_types[SEES].edge_label = torch.arange(10), torch.arange(60)
    with pytest.warns(UserWarning, match="left out edge attribute 'edge_label', which"):
        made, _ = convert(of_types, tmp_path / "typed")
    assert torch.equal(made.items["edge_label"].labels[BUYS], torch.arange(10))
    assert [key for key in made.store.edge if key[1] == "edge_label"] == [(SEES, "edge_label")]
    assert torch.equal(made.store.edge[SEES, "edge_label"].read(torch.arange(60)).rows, torch.arange(60))

    data.edge_label = torch.arange(20)
    with pytest.warns(UserWarning, match="left out .*edge_label with 300 rows, got"):
        hr.Graph.from_pyg(data)
    with pytest.warns(UserWarning, match="left out data.edge_label"):
        hr.FeatureStore.from_pyg(data)


def test_a_folder_is_replaced_only_if_asked(pyg, tmp_path):
    data = plain(pyg)
    hr.convert(data, tmp_path / "set", progress=False)
    with pytest.raises(hr.InputError, match="set"):
        hr.convert(data, tmp_path / "set", progress=False)
    data.num_nodes, data.x = 50, None
    made = hr.convert(data, tmp_path / "set", overwrite=True, progress=False)
    assert "x" not in made.store.node


@pytest.mark.parametrize("source", [None, 3, {"edge_index": [[0], [1]]}, torch.zeros(2, 3)])
def test_other_objects_are_refused(source, tmp_path):
    with pytest.raises(hr.InputError, match=r"convert: expected a path, a torch_geometric Data .* got"):
        hr.convert(source, tmp_path / "set")
    assert not list(tmp_path.iterdir())
