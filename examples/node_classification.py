"""Train a graph neural network on one graph, minibatch by minibatch.

    python examples/node_classification.py
    python examples/node_classification.py --data ../shared/data/amazon_computers.npz --sampler labor
    python examples/node_classification.py --sampler labor-star
    python examples/node_classification.py --sampler ladies --fanouts 2000,4000,8000
    python examples/node_classification.py --data ../shared/data/cora.npz --model gcn

Read it from the top: data, model, loader, evaluation, training with checkpoints, learning curve. A run that was stopped
anywhere, even by ``kill -9``, continues with ``--resume`` from its last checkpoint with the very next minibatch.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headrace as hr

try:
    from torch_geometric.nn import GraphConv
except ImportError:
    GraphConv = None


# ---------------------------------------------------------------------------------------------------------------------
# Data: a graph to sample from, and a store of features to read.


def graph_and_store(data: datasets.Dataset, model: str) -> tuple[hr.Graph, hr.FeatureStore]:
    """Return the graph, and the features and labels of its nodes; for GCN also the normalised weights of its edges."""
    src, dst, edge = data.src.long(), data.dst.long(), {}
    if model == "gcn":
        # D^-1/2 (A + I) D^-1/2 (arXiv:1609.02907), computed once on the whole graph: batches then carry exact weights.
        loops = torch.arange(data.num_nodes)
        src, dst = torch.cat([src, loops]), torch.cat([dst, loops])
        scale = torch.bincount(dst, minlength=data.num_nodes).float().rsqrt()
        edge["weight"] = scale[src] * scale[dst]
    graph = hr.Graph.from_coo(src, dst, num_nodes=data.num_nodes, edge_attrs=edge)
    return graph, hr.FeatureStore(node={"x": data.x, "y": data.y}, edge=edge)


# ---------------------------------------------------------------------------------------------------------------------
# Model: layer i reads blocks[i]; its output has a row for each destination of the block.


def aggregate(block: hr.Block, x: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return for each destination the sum of its in-neighbours' rows, [num_dst, num_features], times edge weights."""
    # A block is in CSC form: a sum over each column's rows, for which no message has to be written down.
    starts = block.indptr[:-1].to(block.indices.dtype)
    return F.embedding_bag(block.indices, x, starts, mode="sum", per_sample_weights=weight)


class SageLayer(nn.Module):
    """GraphSAGE with mean aggregation (arXiv:1706.02216) in plain torch.

    Samplers that do not draw all in-edges alike (LABOR-1 and on, LADIES) put importance weights in the block. They
    average to 1 for each destination: the plain mean of messages times weights is the Hajek estimate of the mean over
    all in-neighbours, so one layer serves every sampler, and evaluation with all neighbours too.
    """

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.own, self.neighbors = nn.Linear(num_in, num_out), nn.Linear(num_in, num_out, bias=False)

    def forward(self, block: hr.Block, x: Tensor, weight: Tensor | None = None) -> Tensor:  # noqa: ARG002
        degree = block.indptr.diff().clamp(min=1)
        mean = aggregate(block, x, block.weight) / degree[:, None]
        return self.own(x[: block.num_dst]) + self.neighbors(mean)


class PygSageLayer(nn.Module):
    """The same layer from PyG: a block turns into the arguments of any bipartite PyG layer.

    It is ``GraphConv`` with mean aggregation that takes weights of edges, not ``SAGEConv``.
    """

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.layer = GraphConv(num_in, num_out, aggr="mean")

    def forward(self, block: hr.Block, x: Tensor, weight: Tensor | None = None) -> Tensor:  # noqa: ARG002
        pair, edge_index, size = block.to_pyg(x)
        return self.layer(pair, edge_index, block.weight, size=size)


class GcnLayer(nn.Module):
    """Graph convolution with given edge weights (arXiv:1609.02907)."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.linear, self.bias = nn.Linear(num_in, num_out, bias=False), nn.Parameter(torch.zeros(num_out))

    def forward(self, block: hr.Block, x: Tensor, weight: Tensor | None = None) -> Tensor:
        return aggregate(block, self.linear(x), weight) + self.bias


class Network(nn.Module):
    """Layers of one kind. GraphSAGE starts with a linear map, so that messages are as narrow as its hidden layers."""

    def __init__(self, kind: str, num_in: int, num_hidden: int, num_out: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        layer = GcnLayer if kind == "gcn" else SageLayer if GraphConv is None else PygSageLayer
        self.first = (
            nn.Identity() if kind == "gcn" else nn.Sequential(nn.LayerNorm(num_in), nn.Linear(num_in, num_hidden))
        )
        widths = [num_in if kind == "gcn" else num_hidden, *[num_hidden] * (num_layers - 1), num_out]
        self.layers = nn.ModuleList(layer(*pair) for pair in itertools.pairwise(widths))
        self.dropout = nn.Dropout(dropout)

    def apply_layer(self, i: int, x: Tensor, block: hr.Block, weight: Tensor | None = None) -> Tensor:
        x = self.layers[i](block, self.dropout(x), weight)
        return x if i == len(self.layers) - 1 else F.relu(x)

    def forward(self, batch: hr.MiniBatch) -> Tensor:
        x = self.first(batch.x)
        for i, block in enumerate(batch.blocks):
            x = self.apply_layer(i, x, block, batch.edge["weight"][i] if "weight" in batch.edge else None)
        return x


# ---------------------------------------------------------------------------------------------------------------------
# Loader: which seeds, which neighbours, which features.

SAMPLERS: dict[str, Callable[[hr.Plan, hr.Graph, list[int]], hr.Plan]] = {
    "neighbor": lambda items, graph, fanouts: items.sample_neighbor(graph, fanouts),
    "labor": lambda items, graph, fanouts: items.sample_layer_neighbor(graph, fanouts),
    "labor-1": lambda items, graph, fanouts: items.sample_layer_neighbor(graph, fanouts, importance=1),
    "labor-star": lambda items, graph, fanouts: items.sample_layer_neighbor(graph, fanouts, importance="*"),
    "ladies": lambda items, graph, sizes: items.sample_ladies(graph, sizes),
    "pladies": lambda items, graph, sizes: items.sample_ladies(graph, sizes, poisson=True),
}


def training_loader(
    options: argparse.Namespace, seeds: Tensor, graph: hr.Graph, store: hr.FeatureStore, *, progress: bool
) -> hr.Loader:
    items = hr.ItemSampler(seeds, batch_size=options.batch_size, shuffle=True, seed=options.seed)
    sampled = SAMPLERS[options.sampler](items, graph, options.fanouts)
    return sampled.fetch_feature(store, node=["x"], labels="y", edge=list(store.edge)).loader(progress=progress)


# ---------------------------------------------------------------------------------------------------------------------
# Evaluation: one layer for all nodes, then the next, with all neighbours. Exact, and the same every time.


@torch.no_grad()
def predict(model: Network, graph: hr.Graph, store: hr.FeatureStore, batch_size: int = 8192) -> Tensor:
    """Return the classes that the model gives to every node of the graph, int64[num_nodes]."""
    model.eval()
    everyone = hr.ItemSampler(graph.num_nodes, batch_size=batch_size, seed=0)
    x = torch.cat([model.first(batch.x) for batch in everyone.fetch_feature(store, node=["x"]).loader()])
    inputs = hr.FeatureStore(node={"x": x}, edge=store.edge)
    layers = [partial(model.apply_layer, i) for i in range(len(model.layers))]
    x = hr.inference(model, graph, inputs, layers=layers, edge=[*map(str, store.edge)], batch_size=batch_size)
    return x.argmax(dim=1)


def accuracy(predicted: Tensor, data: datasets.Dataset, part: Tensor) -> float:
    return (predicted[part] == data.y[part]).float().mean().item()


# ---------------------------------------------------------------------------------------------------------------------
# Training, with checkpoints from which a run continues as if it had not been stopped.


@dataclass
class Progress:
    """What a run has reached: all that is not in the model, the optimiser or the loader."""

    loss: float = 0.0  # Sums over the batches of this epoch so far.
    correct: int = 0
    seen: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)  # One entry per finished epoch.

    def finish_epoch(self, epoch: int, val: float, test: float) -> str:
        entry = {
            "epoch": epoch,
            "loss": self.loss / self.seen,
            "train": self.correct / self.seen,
            "val": val,
            "test": test,
        }
        text = "  ".join(f"{name} {value:.4f}" for name, value in entry.items() if name != "epoch")
        self.history.append(entry)
        self.loss, self.correct, self.seen = 0.0, 0, 0
        return f"epoch {epoch:3d}  {text}  {self.seconds:.1f} s"


def save(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, loader: hr.Loader, progress: Progress) -> None:
    state = {
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "loader": loader.state_dict(),
        "dropout": torch.get_rng_state(),
        "progress": vars(progress),
    }
    # Written aside and renamed: whenever the process dies, the file at `path` is a whole checkpoint.
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def restore(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, loader: hr.Loader) -> Progress:
    state = torch.load(path, weights_only=True)
    loader.load_state_dict(state["loader"])  # First, because it refuses a checkpoint of another plan.
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    torch.set_rng_state(state["dropout"])
    return Progress(**state["progress"])


def train(options: argparse.Namespace, data: datasets.Dataset, *, quiet: bool = False) -> list[dict[str, float]]:
    """Train one model and return loss and accuracies of each epoch."""
    torch.manual_seed(options.seed)
    graph, store = graph_and_store(data, options.model)
    loader = training_loader(options, data.train, graph, store, progress=not quiet)
    model = Network(
        options.model, data.x.shape[1], options.hidden, data.num_classes, len(options.fanouts), options.dropout
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=options.lr, weight_decay=options.weight_decay)
    progress = Progress()
    checkpoint = options.runs / "checkpoint.pt"
    if options.resume and checkpoint.exists():
        progress = restore(checkpoint, model, optimiser, loader)
    if not quiet:
        print(data, model, loader.explain(), sep="\n\n", end="\n\n")

    for epoch in loader.epochs(options.epochs):
        start = time.perf_counter()
        model.train()
        for batch in loader:
            assert batch.y is not None  # the plan fetches labels
            out, y = model(batch)[batch.seed_index], batch.y
            assert y is not None  # Because the loader fetches labels.
            loss = F.cross_entropy(out, y, reduction="sum")
            optimiser.zero_grad()
            (loss / batch.num_global_seeds).backward()
            optimiser.step()

            progress.loss += loss.item()
            progress.correct += int((out.argmax(dim=1) == y).sum())
            progress.seen += batch.num_seeds
            if options.log_batches:
                with options.log_batches.open("a") as log:
                    log.write(f"{batch.epoch} {batch.index} {batch.digest()}\n")
            # The last batch is saved with its epoch's evaluation, below.
            if (
                options.checkpoint_every
                and (batch.index + 1) % options.checkpoint_every == 0
                and batch.index + 1 < len(loader)
            ):
                save(checkpoint, model, optimiser, loader, progress)
        progress.seconds += time.perf_counter() - start
        predicted = predict(model, graph, store)
        line = progress.finish_epoch(epoch, accuracy(predicted, data, data.val), accuracy(predicted, data, data.test))
        if not quiet:
            print(line, flush=True)
        if options.checkpoint_every:
            save(checkpoint, model, optimiser, loader, progress)
    if not quiet:
        print(f"\n{loader.stats()}\n")
    return progress.history


def best_epoch(history: list[dict[str, float]]) -> dict[str, float]:
    """Return the epoch to report. The choice looks at validation alone, never at test."""
    return max(history, key=lambda entry: entry["val"])


# ---------------------------------------------------------------------------------------------------------------------
# The command line.


def draw_curve(history: list[dict[str, float]], title: str, path: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no learning curve: matplotlib is not installed (pip install 'headrace[plot]')")
        return
    epochs = [entry["epoch"] for entry in history]
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(epochs, [entry["loss"] for entry in history], marker=".")
    left.set(xlabel="epoch", ylabel="training loss", title=title)
    for part in ("train", "val", "test"):
        right.plot(epochs, [entry[part] for entry in history], marker=".", label=part)
    right.set(xlabel="epoch", ylabel="accuracy")
    right.legend()
    figure.savefig(path, dpi=120)
    print(f"learning curve: {path}")


DEFAULTS: dict[str, dict[str, Any]] = {
    "sage": {"fanouts": [10, 10, 10], "epochs": 10, "batch_size": 1024, "hidden": 128, "lr": 3e-3, "weight_decay": 0.0},
    # Full neighbourhoods, and the hyperparameters of the paper but for wider layers.
    "gcn": {"fanouts": [-1, -1], "epochs": 100, "batch_size": 70, "hidden": 64, "lr": 1e-2, "weight_decay": 5e-4},
}
LAYER_SIZES = [4096, 8192, 16384]  # as many nodes as three hops of ten neighbours reach, or fewer


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sbm", help="sbm (generated), a .npz file, ogbn-..., or a name PyG knows")
    parser.add_argument("--model", choices=["sage", "gcn"], default="sage")
    parser.add_argument("--sampler", choices=list(SAMPLERS), default="neighbor")
    parser.add_argument(
        "--fanouts",
        type=lambda text: [int(k) for k in text.split(",")],
        help="e.g. 10,10,10; first next to the seeds; -1 = all; ladies and pladies: nodes per hop",
    )
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--hidden", type=int, help="width of the hidden layers")
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--weight-decay", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for checkpoints and curves")
    parser.add_argument("--checkpoint-every", type=int, default=50, metavar="BATCHES", help="0: never")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint of this data and model")
    parser.add_argument(
        "--log-batches", type=Path, metavar="FILE", help="append epoch, index and digest of every batch"
    )
    options = parser.parse_args(arguments)
    if options.model == "gcn" and options.sampler not in ("neighbor", "labor"):
        parser.error(f"--sampler {options.sampler} estimates means; gcn sums: choose --model sage")
    if options.fanouts is None and options.sampler in ("ladies", "pladies"):
        options.fanouts = LAYER_SIZES
    for name, value in DEFAULTS[options.model].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def main() -> None:
    options = parse()
    data = datasets.load(options.data)
    hr.keep_freed_memory()  # training on a CPU reuses the memory of earlier batches
    title = f"{data.name}-{options.model}-{options.sampler}"
    options.runs /= title
    options.runs.mkdir(parents=True, exist_ok=True)
    history = train(options, data)
    best = best_epoch(history)
    print(f"best epoch by validation: {best['epoch']}, test accuracy {best['test']:.4f}")
    draw_curve(history, title, options.runs / "curve.png")


if __name__ == "__main__":
    main()
