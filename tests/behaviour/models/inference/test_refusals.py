"""What hr.inference refuses before work starts, and what an interrupted one leaves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

import headrace as hr

from .models import NUM_NODES, WIDTH, graph_and_store, network


class Counting:
    """A layer that keeps rows as they are, and counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, h, block):
        self.calls += 1
        return h[: block.num_dst]


TRIAL = 2  # calls of a layer before work starts


def refused(error, match, model=None, graph=None, store=None, **options):
    whole, features = graph_and_store()
    with pytest.raises(error, match=match):
        hr.inference(model or nn.Identity(), graph or whole, store or features, **options)


@pytest.mark.parametrize("model", [nn.ModuleList([nn.Linear(2, 2)]), nn.Sequential(nn.Linear(2, 2)), nn.Identity()])
def test_a_model_that_does_not_say_its_layers(model):
    refused(hr.InputError, r"expected a model with a method inference_layers.*pass layers=\[", model)


@pytest.mark.parametrize("layers", [[], [3], nn.Identity(), nn.ModuleList()])
def test_layers_that_are_none(layers):
    refused(hr.InputError, r"expected a list of layers", layers=layers)


def test_what_is_no_model_graph_or_store():
    refused(hr.InputError, "first argument to be a torch.nn.Module, got function", lambda h: h)
    refused(hr.InputError, "expected a whole hr.Graph, got str", graph="graph", layers=[Counting()])
    shard = graph_and_store()[0].shard(hr.Partition.hash(NUM_NODES, 2), 0)
    message = "expected a whole hr.Graph, got the shard of a rank; pass graph and features before they were cut"
    refused(hr.InputError, message, graph=shard, layers=[Counting()])
    refused(hr.InputError, "expected an hr.FeatureStore, got dict", store={"x": torch.zeros(2)}, layers=[Counting()])


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("nodes", [None, torch.arange(9)])
def test_peers_10_loaders_that_shuffle_or_have_a_part_of_the_nodes(shuffle, nodes):
    """None is taken at all: what it goes through, and in which order, cannot make rows wrong then."""
    graph, store = graph_and_store()
    pyg = pytest.importorskip("headrace.pyg")
    data = pytest.importorskip("torch_geometric.data").Data(
        x=store.node["x"].tensor, edge_index=torch.stack([graph.indices.long(), graph.indices.long()])
    )
    options = {"batch_size": 7, "shuffle": shuffle}
    items = hr.ItemSampler(NUM_NODES if nodes is None else nodes, **options)
    for loader in (
        items.sample_neighbor(graph, [-1]).loader(),
        pyg.NeighborLoader(data, [-1], input_nodes=nodes, **options),
    ):
        refused(hr.InputError, "got .*Loader; pass the graph and not a loader", graph=loader, layers=[Counting()])


def test_features_that_are_missing_or_of_another_graph():
    refused(hr.InputError, "there is no node feature 'features'", node="features", layers=[Counting()])
    refused(hr.InputError, "there is no edge feature 'weight'", edge=["weight"], layers=[Counting()])
    other = hr.FeatureStore(node={"x": torch.zeros(NUM_NODES + 1, 2)})
    refused(hr.InputError, f"inference: .* {NUM_NODES} nodes, got {NUM_NODES + 1} rows", store=other, layers=[abs])
    other = hr.FeatureStore(node={"x": torch.zeros(NUM_NODES, 2)}, edge={"w": torch.zeros(3)})
    refused(hr.InputError, "inference: .*edge feature 'w'", store=other, edge="w", layers=[abs])


@pytest.mark.parametrize(
    ("layer", "came"),
    [
        (lambda h, block: h, r"got float64\["),
        (lambda h, block: (h[: block.num_dst],), "got tuple"),
        (lambda h, block: h.sum(), r"got float64\[\]"),
    ],
)
@pytest.mark.parametrize("number", [0, 1])
def test_a_layer_without_a_row_for_each_destination(layer, came, number):
    counting = Counting()
    layers = [layer, counting] if number == 0 else [counting, layer]
    refused(hr.InputError, rf"expected layer {number} to return a row for each .* {came}", layers=layers)
    assert counting.calls <= TRIAL


@pytest.mark.parametrize("kind", ["hr", "pyg"])
def test_graph_convolutions_that_count_degrees_in_the_batch(kind):
    graph, store = graph_and_store(loops=False)
    if kind == "hr":
        layers = [lambda h, block: h[: block.num_dst], hr.nn.GCNConv(WIDTH, 2).double()]
        refused(hr.InputError, r"layer 1 .* same row .*hr\.gcn_norm", layers=layers, graph=graph, store=store)
    else:
        models = pytest.importorskip("torch_geometric.nn.models")
        model = models.GCN(WIDTH, 4, 2).double()
        refused(hr.InputError, r"layer 0 .* same row .*hr\.gcn_norm", model, graph=graph, store=store)


@pytest.mark.parametrize(
    "layer",
    [
        lambda h, block: h[: block.num_dst] - h.mean(0),
        lambda h, block: torch.rand_like(h[: block.num_dst]),
        lambda h, block: h[: block.num_dst] / block.indices.bincount(minlength=block.num_src)[: block.num_dst, None],
        # out-degrees of sources, as DGL's norm="both" has them
        lambda h, block: torch.segment_reduce(
            (h / block.indices.bincount(minlength=block.num_src).clamp(min=1)[:, None])[block.indices.long()],
            "sum",
            offsets=block.indptr,
            axis=0,
        ),
    ],
    ids=["mean", "random", "own out-degree", "sources' out-degrees"],
)
def test_layers_whose_rows_depend_on_the_batch(layer):
    refused(hr.InputError, "layer 0 to give a node the same row whatever other nodes are in its batch", layers=[layer])


BY_POSITION = {
    "first": lambda h, block: h[: block.num_dst] + h[0],
    "last destination": lambda h, block: h[: block.num_dst] + h[block.num_dst - 1],
    "last source": lambda h, block: h[: block.num_dst] + h[-1],
    "position": lambda h, block: h[: block.num_dst] + torch.arange(block.num_dst)[:, None],
    "differences": lambda h, block: h[: block.num_dst].cumsum(0),
}


@pytest.mark.parametrize("name", BY_POSITION)
def test_layers_that_read_rows_by_their_position(name):
    refused(
        hr.InputError, "expected layer 0 to give a node the same row.*reads the first rows", layers=[BY_POSITION[name]]
    )


@pytest.mark.parametrize("name", ["first", "last destination", "position"])
def test_layers_that_read_rows_by_their_position_in_small_graphs(name):
    """Where an edge has nothing but its own two ends."""
    graph = hr.Graph.from_coo([0], [1], num_nodes=5)
    store = hr.FeatureStore(node={"x": torch.randn(5, WIDTH)})
    refused(
        hr.InputError, "expected layer 0 to give a node the same row", None, graph, store, layers=[BY_POSITION[name]]
    )


def test_models_of_pyg_that_are_not_layer_after_layer():
    models = pytest.importorskip("torch_geometric.nn.models")
    refused(hr.InputError, "jk='cat'", models.GraphSAGE(WIDTH, 4, 2, jk="cat"))
    refused(hr.InputError, "features of edges", models.GAT(WIDTH, 4, 2, edge_dim=2), edge=["attr"])


def test_nodes_and_sizes_that_cannot_be():
    counting = Counting()
    ids = torch.arange(4)
    for nodes, match in (
        ([NUM_NODES], f"{NUM_NODES}"),
        (torch.ones(3, dtype=torch.bool), "mask"),
        (ids.view(2, 2), "got pairs"),
        ((ids, ids), "got labels"),
    ):
        refused(hr.HeadraceError, match, layers=[counting], nodes=nodes)
    for batch_size in (0, 2.5, True):
        refused(hr.InputError, "batch_size", layers=[counting], batch_size=batch_size)
    assert counting.calls == 0


def test_places_where_rows_cannot_be(tmp_path):
    counting = Counting()
    refused(hr.InputError, r"name of a \.npy file", layers=[counting], out=tmp_path / "rows")
    (tmp_path / "there.npy").write_text("kept")
    refused(hr.InputError, "it exists", layers=[counting], out=tmp_path / "there.npy")
    (tmp_path / "folder.npy").mkdir()
    refused(hr.InputError, "it exists", layers=[counting], out=tmp_path / "folder.npy", overwrite=True)
    refused(hr.InputError, "a folder for rows.npy, got .*/no", layers=[counting], out=tmp_path / "no" / "rows.npy")
    assert counting.calls == 0
    assert (tmp_path / "there.npy").read_text() == "kept"
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interruption_leaves_what_was_there(tmp_path, error, overwrite):
    graph, store = graph_and_store()
    model, _ = network("hr SAGE")
    model.train()
    if overwrite:
        (tmp_path / "rows.npy").write_text("kept")
    calls = itertools.count()

    def second(h, block):
        if next(calls) == TRIAL + 2:
            assert any(tmp_path.glob(".rows.npy.*/layer_*.npy"))
            raise error("stop")
        return model.second(h, block)

    with pytest.raises(error, match="stop"):
        hr.inference(
            model,
            graph,
            store,
            layers=[model.first, second],
            batch_size=7,
            out=tmp_path / "rows.npy",
            overwrite=overwrite,
        )
    assert [one.read_text() for one in tmp_path.iterdir()] == ["kept"] * overwrite
    assert model.training
    assert model.dropout.training
    rows = hr.inference(model, graph, store, batch_size=7, out=tmp_path / "rows.npy", overwrite=overwrite)
    assert np.array_equal(np.load(tmp_path / "rows.npy"), rows)


def test_a_layer_whose_columns_change_midway():
    calls = itertools.count()

    def layer(h, block):
        return h[: block.num_dst, : 2 if next(calls) > TRIAL else 3]

    refused(
        hr.InputError,
        r"expected layer 0 to return rows as for the batch before, float64\[7, 3\]",
        layers=[layer],
        batch_size=7,
    )


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cuda:256", "", [0], 1.5])
def test_devices_that_are_none(device):
    refused(
        hr.InputError,
        r"inference: expected a device of torch, got .*; write",
        layers=[Counting()],
        device=device,
    )


def test_rows_that_are_not_dense_and_an_option_without_effect():
    refused(hr.InputError, "layer 0 to return dense rows, got layout", layers=[lambda h, block: h[:0].to_sparse()])
    refused(hr.InputError, "expected out= beside overwrite=True", layers=[Counting()], overwrite=True)


def test_complex_rows_are_compared_as_real_ones_are():
    graph, store = graph_and_store()

    def layer(h, block):
        src, dst = block.edge_index
        sums = torch.zeros(block.num_dst, WIDTH, dtype=h.dtype).index_add(0, dst, h[src])
        return torch.complex(sums, -sums)

    rows = hr.inference(nn.Identity(), graph, store, layers=[layer], batch_size=7)
    assert rows.is_complex()
    torch.testing.assert_close(rows.real, -rows.imag)
    refused(
        hr.InputError, "layer 0 to give a node the same row", layers=[lambda h, block: layer(h, block) * block.num_dst]
    )
