"""Train a compiled GraphSAGE on padded batches: one graph, compiled twice, for full batches and for the last.

    python examples/compiled.py
    python examples/compiled.py --data ogbn-arxiv --backend eager

``plan.pad()`` gives all batches of an epoch the same sizes. The loss ignores the labels of padding, and
`hr.nn.BatchNorm` leaves its rows out. Each epoch prints how often torch has compiled. The backend "inductor", torch's
own, needs a C++ compiler on a CPU; "aot_eager" runs the graphs, there and back, without one. torch 2.4 or newer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import datasets
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._dynamo import lookup_backend

import headrace as hr


class GraphSAGE(nn.Module):
    """Two layers with a norm between them."""

    def __init__(self, num_in: int, width: int, num_classes: int) -> None:
        super().__init__()
        self.first, self.norm = hr.nn.SAGEConv(num_in, width), hr.nn.BatchNorm(width)
        self.second = hr.nn.SAGEConv(width, num_classes)

    def forward(self, x: Tensor, blocks: tuple[hr.Block, ...]) -> Tensor:
        h = self.norm(self.first(x, blocks[0]), blocks[0]).relu()
        return self.second(h, blocks[1])


class Compilations:
    """A backend of torch.compile that counts the graphs which another one compiles."""

    def __init__(self, backend: str) -> None:
        self.count = 0
        self._compile: Callable[..., Any] = lookup_backend(backend)

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        self.count += 1
        return self._compile(graph, inputs)


@torch.no_grad()
def accuracy(model: nn.Module, loader: hr.Loader) -> float:
    model.eval()
    hits = seeds = 0
    for batch in loader:
        out = model(batch.x, batch.blocks)[batch.seed_index]
        hits, seeds = hits + int((out.argmax(1) == batch.y).sum()), seeds + batch.num_seeds
    model.train()
    return hits / seeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sbm", help="sbm (generated), a .npz file, ogbn-..., or a name PyG knows")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--backend", default="aot_eager", help="inductor, aot_eager, eager")
    options = parser.parse_args()

    torch.manual_seed(0)
    data = datasets.load(options.data)
    print(data)
    graph = hr.Graph.from_coo(data.src, data.dst, num_nodes=data.num_nodes)
    store = hr.FeatureStore(node={"x": data.x, "y": data.y})

    def batches(ids: Tensor) -> hr.Plan:
        items = hr.ItemSampler(ids, batch_size=options.batch_size, shuffle=True, seed=0)
        return items.sample_neighbor(graph, [10, 10]).fetch_feature(store, node=["x"], labels="y")

    model = GraphSAGE(data.x.shape[1], 64, data.num_classes)
    compilations = Compilations(options.backend)
    compiled = torch.compile(model, backend=compilations, fullgraph=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = batches(data.train).pad(epochs=options.epochs).loader()
    for epoch in loader.epochs(options.epochs):
        total = 0.0
        for batch in loader:
            out = compiled(batch.x, batch.blocks)[batch.seed_index]
            loss = F.cross_entropy(out, batch.y, ignore_index=-100)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * batch.num_seeds
        print(f"epoch {epoch}  loss {total / len(data.train):.4f}  compilations {compilations.count}", flush=True)
    print(f"test accuracy {accuracy(model, batches(data.test).loader()):.4f}")


if __name__ == "__main__":
    main()
