"""hr.inference gives every node what the model gives it on the whole graph."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch import nn

import headrace as hr

from .models import HIDDEN, NUM_CLASSES, NUM_NODES, WIDTH, graph_and_store, network, on_whole_graph

KINDS = ["GCN", "SAGE", "GAT", "GAT+edges", "GIN"]
CLOSE = {"rtol": 1e-9, "atol": 1e-9}  # in double precision


@pytest.mark.slow
@pytest.mark.parametrize("kind", [f"{library} {name}" for library in ("hr", "pyg") for name in KINDS])
def test_peers_10_layer_wise_inference_equals_the_whole_graphs(kind, tmp_path):
    if kind.startswith("pyg"):
        pytest.importorskip("torch_geometric")
    graph, store = graph_and_store()
    model, edge = network(kind)
    expected = on_whole_graph(model, graph, store, edge)
    for batch_size in (1, 7, NUM_NODES):
        rows = hr.inference(model, graph, store, edge=edge, batch_size=batch_size)
        torch.testing.assert_close(rows, expected, **CLOSE)
    file = tmp_path / "rows.npy"
    mapped = hr.inference(model, graph, store, edge=edge, batch_size=7, out=file)
    torch.testing.assert_close(mapped, expected, **CLOSE)
    assert np.array_equal(np.load(file), mapped.numpy())
    assert [one.name for one in tmp_path.iterdir()] == ["rows.npy"]


@pytest.mark.parametrize("name", ["GraphSAGE", "GAT", "GIN"])
@pytest.mark.parametrize("jk", [None, "last"])
def test_peers_10_models_of_pyg_say_their_layers(name, jk):
    models = pytest.importorskip("torch_geometric.nn.models")
    graph, store = graph_and_store(loops=False)
    torch.manual_seed(0)
    model = getattr(models, name)(WIDTH, HIDDEN, 3, NUM_CLASSES, dropout=0.5, norm="batch_norm", jk=jk).double()
    indptr, indices = graph.indptr, graph.indices
    edge_index = torch.stack([indices.long(), torch.arange(NUM_NODES).repeat_interleave(indptr.diff())])
    with torch.no_grad():
        expected = model.eval()(store.node["x"].tensor, edge_index)
    torch.testing.assert_close(hr.inference(model, graph, store, batch_size=7), expected, **CLOSE)


def test_a_graph_without_edges():
    graph = hr.Graph.from_coo([], [], num_nodes=NUM_NODES)
    _, store = graph_and_store()
    model, _ = network("hr SAGE")
    expected = on_whole_graph(model, graph, store, [])
    torch.testing.assert_close(hr.inference(model, graph, store, batch_size=7), expected, **CLOSE)


@pytest.mark.parametrize("out", [None, "rows.npy"])
@pytest.mark.parametrize("nodes", [[5, 23, 5, 0], torch.arange(NUM_NODES) % 3 == 0, range(7, 9), np.array([12])])
def test_rows_of_some_nodes(nodes, out, tmp_path):
    graph, store = graph_and_store()
    model, _ = network("hr SAGE")
    ids = torch.as_tensor(list(nodes)) if not isinstance(nodes, torch.Tensor) else nodes.nonzero()[:, 0]
    expected = on_whole_graph(model, graph, store, [])[ids]
    for batch_size in (3, 100):
        given = None if out is None else tmp_path / f"{batch_size}-{out}"
        rows = hr.inference(model, graph, store, nodes=nodes, batch_size=batch_size, out=given)
        torch.testing.assert_close(rows, expected, **CLOSE)


@pytest.mark.parametrize("out", [None, "rows.npy"])
@pytest.mark.parametrize("nodes", [[], torch.arange(0), torch.zeros(NUM_NODES, dtype=torch.bool), range(0)])
def test_no_nodes_have_no_rows(nodes, out, tmp_path):
    graph, store = graph_and_store()
    sizes = []

    def layer(h, block):
        sizes.append(block.num_dst)
        return h[: block.num_dst, :3].float()

    given = None if out is None else tmp_path / out
    rows = hr.inference(nn.Identity(), graph, store, layers=[layer, layer], nodes=nodes, out=given)
    assert max(sizes) < NUM_NODES - 5, "layers are tried on a few nodes, and computed for none"
    assert rows.shape == (0, 3)
    assert rows.dtype == torch.float32
    assert out is None or np.load(given).shape == (0, 3)


def test_layers_are_passed_and_rows_may_have_any_shape():
    graph, store = graph_and_store()

    def first(h, block):
        return torch.stack([h[: block.num_dst]] * 2, 1).float()

    def second(h, block):
        return torch.segment_reduce(h[block.indices.long()], "sum", offsets=block.indptr, axis=0).sum((1, 2))

    rows = hr.inference(nn.Identity(), graph, store, layers=[first, second], batch_size=7)
    x = store.node["x"].tensor.float().sum(1) * 2
    destination = torch.arange(NUM_NODES).repeat_interleave(graph.indptr.diff())
    expected = torch.zeros(NUM_NODES).index_add_(0, destination, x[graph.indices.long()])
    assert rows.dtype == torch.float32
    torch.testing.assert_close(rows, expected, rtol=1e-5, atol=1e-5)


def test_rows_of_bfloat16_in_a_file(tmp_path):
    graph, store = graph_and_store()
    layers = [lambda h, block: h[: block.num_dst].bfloat16()] * 2
    rows = hr.inference(nn.Identity(), graph, store, layers=layers, batch_size=7, out=tmp_path / "rows.npy")
    assert torch.equal(rows, store.node["x"].tensor.bfloat16())


def test_features_on_disk_and_another_input(tmp_path):
    graph, store = graph_and_store()
    model, _ = network("hr SAGE")
    expected = on_whole_graph(model, graph, store, [])
    np.save(tmp_path / "x.npy", store.node["x"].tensor.numpy())
    disk = hr.FeatureStore(node={"columns": np.load(tmp_path / "x.npy", mmap_mode="r")})
    torch.testing.assert_close(hr.inference(model, graph, disk, node="columns", batch_size=7), expected, **CLOSE)


def test_modes_are_restored_and_nothing_has_gradients():
    graph, store = graph_and_store()
    model, _ = network("hr SAGE")
    model.train()
    model.norm.eval()
    before = model.norm.running_mean.clone()
    seen = []
    layers = [lambda h, block: seen.append(model.training) or model.first(h, block), model.second]
    rows = hr.inference(model, graph, store, layers=layers)
    assert not any(seen)
    assert not rows.requires_grad
    assert torch.is_grad_enabled()
    assert [model.training, model.norm.training, model.dropout.training] == [True, False, True]
    assert torch.equal(model.norm.running_mean, before)


def test_a_file_that_is_mapped_may_be_written_to_and_stays_as_it_is(tmp_path):
    graph, store = graph_and_store()
    model, _ = network("hr SAGE")
    rows = hr.inference(model, graph, store, out=tmp_path / "rows.npy")
    kept = rows.clone()
    rows.zero_()
    assert np.array_equal(np.load(tmp_path / "rows.npy"), kept.numpy())


def test_progress_counts_the_nodes_of_all_layers(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    graph, store = graph_and_store()
    model, _ = network("hr SAGE")
    hr.inference(model, graph, store, nodes=range(10), progress=True)
    shown = capsys.readouterr().err
    assert "layer 2 of 2" in shown
    assert f"{NUM_NODES + 10:.1f}/{NUM_NODES + 10:.1f}" in shown
    hr.inference(model, graph, store)
    assert not capsys.readouterr().err


def test_in_a_job_of_several_ranks_one_of_them_computes_all(tmp_path):
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")  # a job whose other rank never comes
    graph, store = graph_and_store()
    model, _ = network("hr SAGE")
    expected = on_whole_graph(model, graph, store, [])
    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=fake.FakeStore())
    try:
        rows = hr.inference(model, graph, store, batch_size=7, out=tmp_path / "rows.npy")
    finally:
        torch.distributed.destroy_process_group()
    torch.testing.assert_close(rows, expected, **CLOSE)
