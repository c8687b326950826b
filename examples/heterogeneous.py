"""Classify the movies of a graph of movies, directors and actors by R-GCN, on sampled neighbourhoods.

    python examples/heterogeneous.py --data imdb_hetero.npz
    python examples/heterogeneous.py

Without a file the graph is generated. Seeds, fanouts and features are given by type. Directors and actors have no
features: each has a vector that is learnt. `headrace.inference` computes the outputs of all movies exactly.
"""

from __future__ import annotations

import argparse
from typing import Any

import movies
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import RGCNConv

import headrace as hr


class Network(nn.Module):
    """Two relational graph convolutions (arXiv 1703.06103) behind a vector of one width for each node."""

    def __init__(self, num_in: int, width: int, num_classes: int, num_relations: int) -> None:
        super().__init__()
        self.movie = nn.Linear(num_in, width)
        self.people = nn.ModuleDict({kind: nn.Embedding(movies.COUNTS[kind], width) for kind in ("director", "actor")})
        self.layers = nn.ModuleList(RGCNConv(width, out, num_relations) for out in (width, num_classes))

    def inputs(self, x: Tensor, block: hr.Block) -> Tensor:
        """Return vectors of the sources of all types, from the features of the movies among them."""
        movies, types = self.movie(x), block.types
        assert types is not None  # the graph has some
        h = movies.new_empty(len(types.ids), movies.shape[1]).index_copy(0, types.places("movie"), movies)
        for kind, vectors in self.people.items():
            h = h.index_copy(0, types.places(kind), vectors(types.within(kind)))
        return h

    def convolve(self, layer: nn.Module, h: Tensor, block: hr.Block) -> Tensor:
        h = F.dropout(h.relu(), 0.5, self.training)
        rows: Tensor = layer((h, h[: block.num_dst]), block.edge_index, block.edge_types)
        return rows

    def inference_layers(self) -> list[Any]:
        """Return the layers with what stands between them, as `headrace.inference` runs them one by one."""
        first, second = self.layers
        return [
            lambda h, block: self.convolve(first, self.inputs(h["movie"], block), block),
            lambda h, block: self.convolve(second, h, block),
        ]

    def forward(self, batch: hr.MiniBatch) -> Tensor:
        h: Any = {"movie": batch.node["movie", "x"]}
        for layer, block in zip(self.inference_layers(), batch.blocks, strict=True):
            h = layer(h, block)
        return h


def macro_f1(found: Tensor, y: Tensor) -> float:
    """Return the mean over classes of F1."""
    hits = torch.stack([((found == c) & (y == c)).sum() for c in y.unique()])
    sizes = torch.stack([(found == c).sum() + (y == c).sum() for c in y.unique()])
    return float((2 * hits / sizes).mean())


def run(data: str | None, seed: int, epochs: int) -> float:
    """Train once; return the macro-F1 of test movies where that of validation movies is best."""
    graph, x, y, parts = movies.load(data)
    store = hr.FeatureStore(node={"movie": {"x": x, "y": y}})

    train = (
        hr.ItemSampler({"movie": parts["train"]}, batch_size=256, shuffle=True, seed=seed)
        .sample_neighbor(graph, [10, 10])
        .fetch_feature(store, node={"movie": ["x"]}, labels={"movie": "y"})
        .loader()
    )
    torch.manual_seed(seed)
    model = Network(x.shape[1], 64, int(y.max()) + 1, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-3)
    best, result = -1.0, 0.0
    for _ in train.epochs(epochs):
        model.train()
        for batch in train:
            assert batch.y is not None  # the plan fetches labels
            loss = F.cross_entropy(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found = hr.inference(model, graph, store, nodes={"movie": len(y)})["movie"].argmax(1)
        val, test = (macro_f1(found[parts[part]], y[parts[part]]) for part in ("val", "test"))
        if val > best:
            best, result = val, test
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="imdb_hetero.npz (default: generated)")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1, help="trainings, of which the mean is printed")
    options = parser.parse_args()
    scores = [run(options.data, seed, options.epochs) for seed in range(options.seeds)]
    print(f"test macro-F1 {sum(scores) / len(scores):.4f}, {len(scores)} trainings of {options.epochs} epochs")


if __name__ == "__main__":
    main()
