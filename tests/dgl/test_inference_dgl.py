"""Layer-wise inference and the example with DGL's layers."""

from __future__ import annotations

import sys
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch
from dgl.nn import GATConv, GraphConv, SAGEConv
from torch import nn

import headrace as hr

EXAMPLES = Path(__file__).parents[2] / "examples"
NUM_NODES, WIDTH, HIDDEN, NUM_CLASSES = 24, 5, 4, 3

MODELS = {
    "SAGE": lambda *widths: SAGEConv(*widths, "mean"),
    "GAT": lambda *widths: GATConv(*widths, 1),
    "GCN by in-degrees": lambda *widths: GraphConv(*widths, norm="right"),
}


def graphs():
    generator = torch.Generator().manual_seed(2)
    src, dst = torch.randint(NUM_NODES, (2, 100), generator=generator)
    loops = torch.arange(NUM_NODES)
    whole = dgl.graph((torch.cat([src, loops]), torch.cat([dst, loops])), num_nodes=NUM_NODES)
    return whole, hr.Graph.from_dgl(whole), torch.randn(NUM_NODES, WIDTH, generator=generator)


@pytest.mark.parametrize("kind", MODELS)
def test_peers_10_layer_wise_inference_of_dgls_layers(kind, tmp_path):
    whole, graph, x = graphs()
    torch.manual_seed(0)
    convs = nn.ModuleList([MODELS[kind](WIDTH, HIDDEN), MODELS[kind](HIDDEN, NUM_CLASSES)])
    store = hr.FeatureStore(node={"x": x})
    layers = [
        lambda h, block: convs[0](block.to_dgl(), h).flatten(1).relu(),
        lambda h, block: convs[1](block.to_dgl(), h).flatten(1),
    ]
    with torch.no_grad():
        expected = convs[1](whole, convs[0](whole, x).flatten(1).relu()).flatten(1)
    for options in ({"batch_size": 1}, {"batch_size": 7, "out": tmp_path / "rows.npy"}, {}):
        rows = hr.inference(convs, graph, store, layers=layers, **options)
        torch.testing.assert_close(rows, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm", ["both", "left"])
def test_convolutions_that_count_out_edges_in_the_batch_are_refused(norm):
    _, graph, x = graphs()
    conv = GraphConv(WIDTH, HIDDEN, norm=norm)
    with pytest.raises(hr.InputError, match="layer 0 to give a node the same row whatever other nodes"):
        hr.inference(conv, graph, hr.FeatureStore(node={"x": x}), layers=[lambda h, block: conv(block.to_dgl(), h)])


def test_the_example_learns(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)
    import dgl_model

    random = np.random.default_rng(0)
    y = random.integers(0, 3, 300)
    src, dst = random.integers(0, 300, (2, 12_000))
    same = y[src] == y[dst]
    np.savez(
        tmp_path / "easy.npz",
        edge_index=np.stack([np.r_[src[same], src[:1_000]], np.r_[dst[same], dst[:1_000]]]),
        x_indptr=np.arange(301),
        x_indices=np.where(random.random(300) < 0.6, y, random.integers(0, 3, 300)).astype(np.int32),
        x_data=np.ones(300, dtype=np.uint8),
        x_shape=np.array([300, 3]),
        y=y,
        **{f"{part}_mask": random.permutation(300) < 100 for part in ("train", "val", "test")},
    )
    arguments = ["--data", tmp_path / "easy.npz", "--epochs", "4", "--batch-size", "25", "--sampler", "labor"]
    monkeypatch.setattr(sys, "argv", ["dgl_model.py", *map(str, arguments)])
    try:
        dgl_model.main()
    finally:
        for name in ("dgl_model", "datasets"):
            sys.modules.pop(name, None)
    assert float(capsys.readouterr().out.rsplit("test accuracy", 1)[1]) > 0.9
