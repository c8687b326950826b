"""Train Cluster-GCN: batches are clusters of METIS, and layers hear nodes of the batch alone.

    python examples/cluster_gcn.py --data cora.npz
    torchrun --nproc-per-node 4 examples/cluster_gcn.py --data cora.npz --boundary 1

A batch is a few clusters as a whole with the links between them (arXiv 1905.07953), so its memory is bounded by its
nodes, however deep the model is. With a boundary, nodes so many hops around the clusters take part: more work for each
batch, and fewer links that are cut. After each epoch, all nodes are classified with all of their links. With torchrun
all processes make every batch together, as one would: degrees within the batch are those of all of its links.
"""

from __future__ import annotations

import argparse
import os
from itertools import pairwise

import datasets
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import headrace as hr


class Network(nn.Module):
    """Convolutions normalised within the batch, whose own rows count more (diagonal enhancement)."""

    def __init__(self, widths: list[int], diag_lambda: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.layers = nn.ModuleList(hr.nn.ClusterGCNConv(*pair, diag_lambda=diag_lambda) for pair in pairwise(widths))

    def forward(self, h: Tensor, blocks: tuple[hr.Block, ...]) -> Tensor:
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(self.dropout(h), block)
            if i < len(self.layers) - 1:
                h = F.relu(h)
        return h


def add_up(*values: float) -> list[float]:
    """Return the sums over all ranks."""
    sums = torch.tensor(values, dtype=torch.float64)
    if dist.is_initialized():
        dist.all_reduce(sums)
    return sums.tolist()


def run_epoch(loader: hr.Loader, model: nn.Module, optimizer: torch.optim.Optimizer | None) -> tuple[float, float]:
    """Train for an epoch, or only look; return the mean loss and the accuracy over labelled nodes of all ranks."""
    model.train(optimizer is not None)
    loss_sum = correct = seen = 0.0
    with torch.set_grad_enabled(optimizer is not None):
        for batch in loader:
            assert batch.y is not None  # the plan fetches labels
            (labelled,) = add_up(int((batch.y >= 0).sum()))
            if not labelled:  # clusters without a node to train on
                continue
            out = model(batch, batch.x, batch.blocks)[batch.seed_index]
            loss = F.cross_entropy(out, batch.y, reduction="sum", ignore_index=-1)
            if optimizer is not None:
                optimizer.zero_grad()
                (loss / labelled).backward()
                hr.sum_gradients(model)
                optimizer.step()
            loss_sum, seen = loss_sum + loss.item(), seen + labelled
            correct += int((out.argmax(dim=1) == batch.y).sum())
    loss_sum, correct = add_up(loss_sum, correct)
    return loss_sum / seen, correct / seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sbm", help="sbm (generated), a .npz file, ogbn-..., or a name PyG knows")
    parser.add_argument("--clusters", type=int, default=50)
    parser.add_argument("--clusters-per-batch", type=int, default=5)
    parser.add_argument("--boundary", type=int, default=0, help="hops around the clusters that take part")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--diag-lambda", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()

    if "RANK" in os.environ:  # set by torchrun
        dist.init_process_group("gloo")
    is_first = not dist.is_initialized() or dist.get_rank() == 0

    data = datasets.load(options.data)
    graph = hr.Graph.from_coo(data.src, data.dst, num_nodes=data.num_nodes)
    clusters = hr.Partition.metis(graph, options.clusters)
    labels = {name: torch.full_like(data.y, -1) for name in ("train", "test")}  # -1: not of this part
    for name, y in labels.items():
        y[getattr(data, name)] = data.y[getattr(data, name)]
    store = hr.FeatureStore(node={"x": data.x, **labels})

    def make_loader(source: hr.Plan, part: str) -> hr.Loader:
        plan = source.sample_in_subgraph(graph, num_hops=options.layers)
        return plan.fetch_feature(store, node=["x"], labels=part).loader(cooperative=True)

    torch.manual_seed(0)  # the same parameters on every rank
    widths = [data.x.shape[1], *[128] * (options.layers - 1), data.num_classes]
    model = hr.cooperative(Network(widths, options.diag_lambda))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    sampled = hr.ClusterSampler(clusters, options.clusters_per_batch, boundary=options.boundary, seed=7)
    with make_loader(sampled, "train") as train, make_loader(hr.GlobalBatch(graph, seed=7), "test") as test:
        for epoch in train.epochs(options.epochs):
            loss, _ = run_epoch(train, model, optimizer)
            _, accuracy = run_epoch(test, model, None)
            if is_first:
                print(f"epoch {epoch}  loss {loss:.4f}  test accuracy {accuracy:.4f}", flush=True)
        if is_first:
            print(clusters.report(graph, labelled=data.train), train.stats(), sep="\n")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
