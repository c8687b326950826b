"""Train GraphSAGE on node features that stay in a file.

    python examples/features_on_disk.py
    python examples/features_on_disk.py --nodes 20000000 --file /data/x.npy       # 10 GB

The graph and the labels are in memory; rows of features are read as batches ask for them, many at a time. The file may
be larger than memory: of its rows, those of batches on their way are there, and those in a cache, which takes a quarter
of what is free at most.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from node_classification import Network

import headrace as hr

CLASSES = 8


def write_features(path: Path, y: np.ndarray, width: int, seed: int) -> None:
    """Write noise in which the class of a node shows a little, a piece at a time, as real features would be made."""
    random = np.random.default_rng(seed)
    centers = random.standard_normal((CLASSES, width), np.float32)
    x = np.lib.format.open_memmap(path, "w+", np.float32, (len(y), width))
    for first in range(0, len(y), 100_000):
        labels = y[first : first + 100_000]
        x[first : first + len(labels)] = 0.3 * centers[labels] + random.standard_normal(
            (len(labels), width), np.float32
        )
    x.flush()


def graph_of(y: np.ndarray, degree: int, seed: int) -> hr.Graph:
    """Return a graph in which most edges join nodes of one class."""
    random = np.random.default_rng(seed)
    by_class = np.argsort(y, kind="stable")
    dst = np.repeat(np.arange(len(y)), degree)
    src = random.integers(0, len(y), len(dst))
    place = np.empty_like(by_class)
    place[by_class] = np.arange(len(y))
    near = random.random(len(dst)) < 0.8
    src[near] = by_class[np.clip(place[dst[near]] + random.integers(-50, 51, near.sum()), 0, len(y) - 1)]
    return hr.Graph.from_coo(src, dst, num_nodes=len(y))


def training_loader(options: argparse.Namespace, path: Path, graph: hr.Graph, y: np.ndarray) -> hr.Loader:
    x = hr.DiskFeature(path)  # the loader puts a cache before it and reads ahead: loader.explain() shows both
    print(f"x is {x}")
    store = hr.FeatureStore(node={"x": x, "y": y})
    items = hr.ItemSampler(len(y), batch_size=options.batch_size, shuffle=True, seed=options.seed)
    return items.sample_neighbor(graph, options.fanouts).fetch_feature(store, node=["x"], labels="y").loader()


def train(options: argparse.Namespace, path: Path) -> list[float]:
    """Return the accuracy on the seeds of each epoch."""
    y = np.random.default_rng(options.seed).integers(0, CLASSES, options.nodes)
    write_features(path, y, options.width, options.seed)
    loader = training_loader(options, path, graph_of(y, options.degree, options.seed), y)
    torch.manual_seed(options.seed)
    model = Network("sage", options.width, options.hidden, CLASSES, len(options.fanouts), dropout=0.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    accuracies = []
    for epoch in loader.epochs(options.epochs):
        correct = 0
        for batch in loader:
            out, y = model(batch), batch.y
            assert y is not None  # Because the loader fetches labels.
            loss = F.cross_entropy(out, y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            correct += int((out.argmax(dim=1) == y).sum())
        accuracies.append(correct / options.nodes)
        print(f"epoch {epoch}  accuracy {accuracies[-1]:.4f}", flush=True)
    print(f"\n{loader.stats()}")
    return accuracies


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, help="of the features, written anew (default: a temporary one)")
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=128, help="float32 of a row")
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--fanouts", type=lambda text: [int(k) for k in text.split(",")], default=[10, 5])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> list[float]:
    options = parse(arguments)
    with tempfile.TemporaryDirectory() as folder:
        return train(options, options.file or Path(folder) / "x.npy")


if __name__ == "__main__":
    main()
