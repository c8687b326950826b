"""Graphs of DGL to data sets: batches of the data set are those of the objects themselves."""

from __future__ import annotations

import dgl
import torch

import headrace as hr

from contracts import digests

BUYS, SEES = ("user", "buys", "item"), ("user", "sees", "item")


def test_batches_without_types(tmp_path):
    torch.manual_seed(3)
    graph = dgl.graph(tuple(torch.randint(0, 50, (2, 300))), num_nodes=50)
    graph.ndata.update(x=torch.rand(50, 4), y=torch.arange(50) % 3, train_mask=torch.arange(50) % 3 == 0)
    graph.edata["w"] = torch.rand(300)
    made = hr.convert(graph, tmp_path / "set", progress=False)
    made.verify()
    store = hr.FeatureStore(node={"x": graph.ndata["x"], "y": graph.ndata["y"]}, edge=dict(graph.edata))

    def plan(items, graph, store):
        hops = hr.ItemSampler(items, batch_size=8, shuffle=True, seed=1).sample_neighbor(graph, [3, 2], weight="w")
        return hops.fetch_feature(store, node=["x"], edge=["w"], labels="y").loader()

    expected = digests(plan(graph.ndata["train_mask"], hr.Graph.from_dgl(graph), store))
    assert digests(plan(made.items["train"], made.graph, made.store)) == expected
    assert set(made.store.node) == {"x", "y"}


def test_batches_with_types(tmp_path):
    torch.manual_seed(4)
    edges = {
        name: (torch.randint(0, 20, (count,)), torch.randint(0, 30, (count,)))
        for name, count in ((BUYS, 80), (SEES, 60))
    }
    graph = dgl.heterograph(edges, num_nodes_dict={"user": 20, "item": 30})
    graph.nodes["item"].data.update(x=torch.rand(30, 5), train_mask=torch.arange(30) % 2 == 0)
    graph.edges[BUYS].data["price"] = torch.rand(80)
    graph.edges[SEES].data["price"] = torch.rand(60)
    made = hr.convert(graph, tmp_path / "set", progress=False)
    store = hr.FeatureStore(node={"item": {"x": graph.nodes["item"].data["x"]}})

    def plan(items, graph, store):
        hops = hr.ItemSampler(items, batch_size=4, shuffle=True, seed=1).sample_neighbor(graph, [3, 2], weight="price")
        return hops.fetch_feature(store, node=[("item", "x")]).loader()

    items = {"item": graph.nodes["item"].data["train_mask"]}
    expected = digests(plan(items, hr.Graph.from_dgl(graph), store))
    assert digests(plan(made.items["train"], made.graph, made.store)) == expected
    assert set(made.store.edge) == {(BUYS, "price"), (SEES, "price")}
