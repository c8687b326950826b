"""Models trained on a real graph by one of several strategies: accuracy on test nodes, and the time of an epoch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import headrace as hr

NUM_LAYERS = 2
WIDEST = 2048  # columns; of wider features random projections are taken, to
PROJECTED = 512
SPARSE = 0.05  # share of features that are not 0, below which dropout looks at these alone


@dataclass(frozen=True)
class Data:
    """A graph with loops, its features and labels, and the parts of its nodes."""

    graph: hr.Graph
    store: hr.FeatureStore
    y: Tensor
    train: Tensor
    val: Tensor
    test: Tensor
    width: int
    is_sparse: bool

    @property
    def num_classes(self) -> int:
        return int(self.y.max()) + 1


@cache
def data_of(path: Path) -> Data:
    """Read a file of a real graph."""
    arrays = np.load(path)
    num_nodes, width = (int(size) for size in arrays["x_shape"])
    rows = np.repeat(np.arange(num_nodes), np.diff(arrays["x_indptr"]))
    if width > WIDEST:
        projection = torch.randn(width, PROJECTED, generator=torch.Generator().manual_seed(0))
        columns, values = (torch.from_numpy(arrays[name]) for name in ("x_indices", "x_data"))
        starts = torch.from_numpy(arrays["x_indptr"][:-1])
        x = functional.embedding_bag(
            columns.long(), projection, starts.long(), mode="sum", per_sample_weights=values.float()
        )
    else:
        dense = np.zeros((num_nodes, width), np.float32)
        dense[rows, arrays["x_indices"]] = arrays["x_data"]
        x = torch.from_numpy(dense)
    is_sparse = int(x.count_nonzero()) < SPARSE * x.numel()
    # Few words add up to 1, as in Kipf and Welling's code; many would be too small then, and have length 1.
    x = functional.normalize(x, p=1 if is_sparse else 2)
    src, dst = (torch.from_numpy(ends) for ends in arrays["edge_index"])
    graph = hr.Graph.from_coo(src, dst, num_nodes=num_nodes).with_self_loops()
    y = torch.from_numpy(arrays["y"])
    train, val, test = (torch.from_numpy(np.flatnonzero(arrays[f"{part}_mask"])) for part in ("train", "val", "test"))
    trained = torch.full_like(y, -1)
    trained[train] = y[train]
    store = hr.FeatureStore(node={"x": x, "y": trained}, edge={"norm": hr.gcn_norm(graph)})
    return Data(graph, store, y, train, val, test, x.shape[1], is_sparse)


class InputDropout(nn.Module):
    """Dropout of features. Of words, nearly all 0, it draws for the others alone: the law is the same."""

    def __init__(self, probability: float, is_sparse: bool) -> None:
        super().__init__()
        self.probability, self.is_sparse = probability, is_sparse

    def forward(self, x: Tensor) -> Tensor:
        if not (self.training and self.is_sparse):
            return functional.dropout(x, self.probability, self.training)
        flat = x.flatten()
        places = flat.nonzero().squeeze(1)
        out = torch.zeros_like(flat)
        out[places] = functional.dropout(flat[places], self.probability)
        return out.view_as(x)


class Gcn(nn.Module):
    """Kipf and Welling's model, with weights of the whole graph's degrees.

    Weights of sampled in-edges grow, by the number of all over that of the sampled ones: sums of their messages then
    estimate those of the whole graph, on which the model is evaluated.
    """

    def __init__(self, data: Data, hidden: int, *, sampled: bool = False) -> None:
        super().__init__()
        self.degrees = data.graph.in_degrees().float() if sampled else None
        widths = [data.width, *[hidden] * (NUM_LAYERS - 1), data.num_classes]
        self.dropout = InputDropout(0.5, data.is_sparse)
        self.layers = nn.ModuleList(hr.nn.GCNConv(*pair, normalize=False) for pair in pairwise(widths))

    def forward(self, batch: hr.MiniBatch) -> Tensor:
        x = self.dropout(batch.x)
        for i, (layer, block) in enumerate(zip(self.layers, batch.blocks, strict=True)):
            weights = batch.edge["norm"][i]
            if self.training and self.degrees is not None:
                taken = block.indptr.diff()
                scale = self.degrees[batch.n_id[: block.num_dst]] / taken.clamp(min=1)
                weights = weights * scale.repeat_interleave(taken)
            x = layer(x, block, weights)
            x = functional.dropout(functional.relu(x), 0.5, self.training) if i < NUM_LAYERS - 1 else x
        return x


class Gat(nn.Module):
    """Veličković's model."""

    def __init__(self, data: Data, hidden: int) -> None:
        super().__init__()
        self.dropout = InputDropout(0.6, data.is_sparse)
        self.layers = nn.ModuleList(
            [
                hr.nn.GATConv(data.width, hidden, 8, dropout=0.6),
                hr.nn.GATConv(8 * hidden, data.num_classes, 1, concat=False, dropout=0.6),
            ]
        )

    def forward(self, batch: hr.MiniBatch) -> Tensor:
        x = self.dropout(batch.x)
        for i, (layer, block) in enumerate(zip(self.layers, batch.blocks, strict=True)):
            x = layer(x, block)
            x = functional.dropout(functional.elu(x), 0.6, self.training) if i == 0 else x
        return x


@dataclass(frozen=True)
class Training:
    """What is trained, and how.

    Parameters
    ----------
    model
        Makes it.
    source
        Takes the data and a seed, and returns the plan up to the sampler.
    epochs
        Validation accuracy chooses the one that counts.
    rate
        Of Adam.
    decayed
        Layers whose weights decay: the first, as in Kipf and Welling's code, or all, as in that of GAT.
    """

    model: Callable[[Data], nn.Module]
    source: Callable[[Data, int], hr.Plan]
    epochs: int
    rate: float
    decayed: Literal["first", "all"] = "first"


def train(training: Training, data: Data, seed: int) -> tuple[float, float]:
    """Return the test accuracy, and the seconds of an epoch of training."""
    torch.manual_seed(seed)
    model = training.model(data)
    groups = [
        {"params": layer.parameters(), "weight_decay": 5e-4 if number == 0 or training.decayed == "all" else 0.0}
        for number, layer in enumerate(model.layers)  # type: ignore[arg-type]
    ]
    optimizer = torch.optim.Adam(groups, lr=training.rate)
    plan = training.source(data, seed).fetch_feature(data.store, node=["x"], edge=["norm"], labels="y")
    everything = hr.GlobalBatch(data.graph).sample_in_subgraph(data.graph, num_hops=NUM_LAYERS)
    (whole,) = everything.fetch_feature(data.store, node=["x"], edge=["norm"]).loader(prefetch=False)
    best, accuracy, seconds = -1.0, 0.0, 0.0
    with plan.loader() as loader:
        for _ in loader.epochs(training.epochs):
            model.train()
            start = time.perf_counter()
            for batch in loader:
                assert batch.y is not None  # the plan fetches labels
                labelled = batch.y >= 0
                if not bool(labelled.any()):
                    continue
                optimizer.zero_grad()
                out = model(batch)[batch.seed_index]
                functional.cross_entropy(out[labelled], batch.y[labelled]).backward()
                optimizer.step()
            seconds += time.perf_counter() - start
            model.eval()
            with torch.no_grad():
                right = model(whole).argmax(1) == data.y
            validated = float(right[data.val].float().mean())
            if validated > best:
                best, accuracy = validated, float(right[data.test].float().mean())
    return accuracy, seconds / training.epochs
