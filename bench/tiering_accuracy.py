"""A GraphSAGE trained on a real graph, with batches that depend on each other or not: its accuracy on test nodes."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import headrace as hr

FANOUTS = (10, 10)
HIDDEN = 64
BATCH_SIZE = 512


class Sage(nn.Module):
    """Layers of mean aggregation over a linear map of the features."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.first = nn.Linear(num_in, HIDDEN)
        widths = [*[HIDDEN] * len(FANOUTS), num_out]
        self.own = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        self.others = nn.ModuleList(nn.Linear(*pair, bias=False) for pair in pairwise(widths))

    def forward(self, batch: hr.MiniBatch) -> Tensor:
        x = self.first(batch.x)
        for i, block in enumerate(batch.blocks):
            x = functional.dropout(functional.relu(x), 0.5, self.training)
            mean = functional.embedding_bag(block.indices, x, block.indptr[:-1].to(block.indices.dtype), mode="mean")
            x = self.own[i](x[: block.num_dst]) + self.others[i](mean)
        return x


@cache
def data_of(path: Path) -> tuple[hr.Graph, hr.FeatureStore, Tensor, Tensor]:
    """Return graph, features and labels, training nodes and test nodes."""
    arrays = np.load(path)
    num_nodes, width = (int(size) for size in arrays["x_shape"])
    x = np.zeros((num_nodes, width), np.float32)
    rows = np.repeat(np.arange(num_nodes), np.diff(arrays["x_indptr"]))
    x[rows, arrays["x_indices"]] = arrays["x_data"]
    graph = hr.Graph.from_coo(*(torch.from_numpy(ends) for ends in arrays["edge_index"]), num_nodes=num_nodes)
    store = hr.FeatureStore(node={"x": torch.from_numpy(x), "y": torch.from_numpy(arrays["y"])})
    train, test = (torch.from_numpy(np.flatnonzero(arrays[name])) for name in ("train_mask", "test_mask"))
    return graph, store, train, test


def test_accuracy(path: Path, dependency: float, seed: int, epochs: int) -> float:
    """Train, and return the share of test nodes that are classified rightly, seen with all their neighbours."""
    graph, store, train, test = data_of(path)
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # trainings of this size gain little from more, and others may want the cores
    items = hr.ItemSampler(train, batch_size=BATCH_SIZE, shuffle=True, seed=seed)
    plan = items.sample_layer_neighbor(graph, FANOUTS, batch_dependency=dependency)
    labels = store.node["y"].read(torch.arange(graph.num_nodes)).rows
    model = Sage(store.node["x"].shape[-1], int(labels.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with plan.fetch_feature(store, node=["x"], labels="y").loader(prefetch=False) as loader:
        for _ in loader.epochs(epochs):
            for batch in loader:
                assert batch.y is not None  # the plan fetches labels
                optimizer.zero_grad()
                functional.cross_entropy(model(batch), batch.y).backward()
                optimizer.step()
    model.eval()
    right = 0
    everything = hr.ItemSampler(test, batch_size=len(test), seed=0).sample_neighbor(graph, [-1] * len(FANOUTS))
    with torch.no_grad(), everything.fetch_feature(store, node=["x"], labels="y").loader(prefetch=False) as loader:
        for batch in loader:
            right += int((model(batch).argmax(1) == batch.y).sum())
    return right / len(test)
