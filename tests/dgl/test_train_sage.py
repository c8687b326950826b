"""A model made of DGL's own layers learns from `batch.to_dgl()`."""

from __future__ import annotations

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl.nn import SAGEConv

import headrace as hr

NUM_NODES = 600
NUM_CLASSES = 3
NUM_FEATURES = 8
DEGREE = 12


class Sage(torch.nn.Module):
    """Two layers, the second without activation."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([SAGEConv(NUM_FEATURES, 16, "mean"), SAGEConv(16, NUM_CLASSES, "mean")])

    def forward(self, blocks, x):
        x = F.relu(self.layers[0](blocks[0], x))
        return self.layers[1](blocks[1], x)


def clustered_graph():
    """Neighbours share a class four times out of five; one node's features alone say little about its class."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(NUM_CLASSES, (NUM_NODES,), generator=generator)
    order = y.argsort()
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), y.bincount().cumsum(0)])
    dst = torch.arange(NUM_NODES).repeat_interleave(DEGREE)
    span = ends.diff()[y[dst]]
    same_class = order[ends[:-1][y[dst]] + (torch.rand(dst.shape, generator=generator) * span).long()]
    anyone = torch.randint(NUM_NODES, dst.shape, generator=generator)
    src = torch.where(torch.rand(dst.shape, generator=generator) < 0.8, same_class, anyone)
    x = torch.randn(NUM_NODES, NUM_FEATURES, generator=generator)
    x[:, :NUM_CLASSES] += F.one_hot(y, NUM_CLASSES)
    return hr.Graph.from_coo(src, dst, num_nodes=NUM_NODES), hr.FeatureStore(node={"x": x, "y": y})


@pytest.mark.parametrize("verb", ["sample_neighbor", "sample_layer_neighbor"])
def test_sage_conv_learns(verb):
    graph, store = clustered_graph()
    items = hr.ItemSampler(NUM_NODES // 2, batch_size=50, shuffle=True, seed=1)
    loader = getattr(items, verb)(graph, fanouts=[5, 5]).fetch_feature(store, node=["x"], labels="y").loader()
    torch.manual_seed(0)
    model = Sage()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(12):
        total = 0.0
        for batch in loader:
            blocks = batch.to_dgl()
            assert torch.equal(blocks[-1].dstdata[dgl.NID], batch.seeds)
            assert torch.equal(blocks[0].srcdata["x"], batch.x)
            loss = F.cross_entropy(model(blocks, batch.x), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / len(loader))
    assert losses[-1] < 0.5 * losses[0]

    unseen = hr.ItemSampler(range(NUM_NODES // 2, NUM_NODES), batch_size=100)
    whole = unseen.sample_neighbor(graph, fanouts=[-1, -1]).fetch_feature(store, node=["x"], labels="y").loader()
    model.eval()
    with torch.no_grad():
        correct = sum((model(batch.to_dgl(), batch.x).argmax(1) == batch.y).sum().item() for batch in whole)
    assert correct / (NUM_NODES // 2) > 0.9
