"""Log what a loader does: to TensorBoard, and as text for Prometheus.

    python examples/metrics.py
    python examples/metrics.py --runs runs/metrics --textfile runs/metrics/headrace.prom

TensorBoard (``pip install tensorboard``) gets the rates, the share of its time that the loop waited, and the bytes by
place, once an epoch. Prometheus reads the same counts from a text file, which its node exporter collects. At the end
stands a picture of the last batches: which thread did what, and when the loop waited.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import datasets
import torch
import torch.nn.functional as F

import headrace as hr


def writer_of(folder: Path) -> Any:
    """Return a writer of TensorBoard, or None where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        print("tensorboard is not installed: text for Prometheus alone")
        return None
    return SummaryWriter(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sbm", help="sbm (generated), a .npz file, ogbn-..., or a name PyG knows")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--runs", type=Path, default=Path("runs/metrics"), help="folder for logs and the picture")
    parser.add_argument("--textfile", type=Path, help="file for Prometheus; by default headrace.prom in that folder")
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    textfile = options.textfile or options.runs / "headrace.prom"

    data = datasets.load(options.data)
    graph = hr.Graph.from_coo(data.src, data.dst, num_nodes=data.num_nodes)
    store = hr.FeatureStore(node={"x": data.x, "y": data.y})
    items = hr.ItemSampler(data.train, batch_size=options.batch_size, shuffle=True, seed=0)
    loader = items.sample_layer_neighbor(graph, [10]).fetch_feature(store, node=["x"], labels="y").loader()

    torch.manual_seed(0)
    layer = hr.nn.SAGEConv(data.x.shape[1], data.num_classes)
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
    writer = writer_of(options.runs)
    for epoch in loader.epochs(options.epochs):
        for batch in loader:
            loss = F.cross_entropy(layer(batch.x, batch.blocks[0])[batch.seed_index], batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        stats = loader.stats()  # since the start: counters of Prometheus never fall
        for name, value in stats.scalars().items() if writer is not None else ():
            writer.add_scalar(name, value, epoch)
        partial = textfile.with_suffix(".tmp")  # a collector never reads half a file
        partial.write_text(stats.prometheus(job="training"))
        partial.replace(textfile)
        print(f"epoch {epoch}: loss {loss.item():.3f}; {stats.verdict}")
    if writer is not None:
        writer.close()
    print(loader.profile(options.runs / "timeline.png"))


if __name__ == "__main__":
    main()
