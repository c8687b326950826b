"""Train a model made of DGL's layers: minibatches come as its blocks, and inference is exact, layer by layer.

    pip install -r constraints-dgl.txt --no-deps    # a set of versions in which DGL imports
    python examples/dgl_model.py
    python examples/dgl_model.py --sampler labor

Graph, features, layers and the training loop are those of a script for DGL; what changes is the loader. The plan ends
in ``to_dgl()``, so blocks are made in the loader's background threads, with features in ``srcdata`` and labels in
``dstdata``.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import datasets
import dgl
import torch
import torch.nn.functional as F
from dgl.nn import SAGEConv
from torch import Tensor, nn

import headrace as hr


class Sage(nn.Module):
    """GraphSAGE (arXiv 1706.02216) of two layers of DGL."""

    def __init__(self, num_in: int, width: int, num_out: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([SAGEConv(num_in, width, "mean"), SAGEConv(width, num_out, "mean")])
        self.dropout = nn.Dropout(0.5)

    def apply_layer(self, i: int, block: Any, h: Tensor) -> Tensor:
        h = self.layers[i](block, self.dropout(h))
        return h if i == len(self.layers) - 1 else F.relu(h)

    def forward(self, blocks: list[Any]) -> Tensor:
        h = blocks[0].srcdata["x"]
        for i, block in enumerate(blocks):
            h = self.apply_layer(i, block, h)
        return h

    def inference_layers(self) -> list[Any]:
        """Return the layers as `headrace.inference` calls them: with the rows first, and with a block of headrace."""
        return [partial(self.apply_to_block, i) for i in range(len(self.layers))]

    def apply_to_block(self, i: int, h: Tensor, block: hr.Block) -> Tensor:
        return self.apply_layer(i, block.to_dgl(), h)


SAMPLERS = {"neighbor": "sample_neighbor", "labor": "sample_layer_neighbor"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sbm", help="sbm (generated), or a .npz file")
    parser.add_argument("--sampler", choices=list(SAMPLERS), default="neighbor")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=1024)
    options = parser.parse_args()

    # As DGL has it: a graph, and what its nodes have.
    data = datasets.load(options.data)
    print(data)
    dgl_graph = dgl.graph((data.src.long(), data.dst.long()), num_nodes=data.num_nodes)
    dgl_graph.ndata["x"], dgl_graph.ndata["y"] = data.x, data.y

    graph = hr.Graph.from_dgl(dgl_graph)
    store = hr.FeatureStore(node=dict(dgl_graph.ndata))
    items = hr.ItemSampler(data.train, batch_size=options.batch_size, shuffle=True, seed=0)
    sampled = getattr(items, SAMPLERS[options.sampler])(graph, fanouts=[10, 10])
    loader = sampled.fetch_feature(store, node=["x"], labels="y").to_dgl().loader()

    torch.manual_seed(0)
    model = Sage(data.x.shape[1], 64, data.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in loader.epochs(options.epochs):
        losses = []
        for blocks in loader:
            loss = F.cross_entropy(model(blocks), blocks[-1].dstdata["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        predicted = hr.inference(model, graph, store, nodes=data.val).argmax(dim=1)
        accuracy = (predicted == data.y[data.val]).float().mean()
        print(f"epoch {epoch}  loss {sum(losses) / len(losses):.4f}  validation accuracy {accuracy:.4f}", flush=True)

    predicted = hr.inference(model, graph, store, nodes=data.test).argmax(dim=1)
    print(f"test accuracy {(predicted == data.y[data.test]).float().mean():.4f}")


if __name__ == "__main__":
    main()
