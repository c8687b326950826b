"""Train one model by three strategies: on the whole graph, on minibatches, on clusters.

    python examples/strategies.py --strategy global
    torchrun --nproc-per-node 2 examples/strategies.py --strategy mini
    torchrun --nproc-per-node 4 examples/strategies.py --strategy cluster --boundary 1

What changes is the source of the plan alone (GraphTheta, arXiv 2104.10569): neighbourhoods are whole, nothing is
sampled. Graph convolutions are normalised by the degrees of the whole graph, so with a boundary as deep as the model
the three compute the same for a node. With torchrun all processes make every batch together, and print what one does.
"""

from __future__ import annotations

import argparse
import os

import datasets
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import headrace as hr

NUM_LAYERS = 2


class Network(nn.Module):
    """Two graph convolutions (arXiv 1609.02907); `norms` holds what each layer multiplies messages by."""

    def __init__(self, num_in: int, width: int, num_out: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        widths = ((num_in, width), (width, num_out))
        self.layers = nn.ModuleList(hr.nn.GCNConv(*pair, normalize=False) for pair in widths)

    def forward(self, h: Tensor, blocks: tuple[hr.Block, ...], norms: tuple[Tensor, ...]) -> Tensor:
        for i, (layer, block, norm) in enumerate(zip(self.layers, blocks, norms, strict=True)):
            h = layer(self.dropout(h), block, norm)
            if i < len(self.layers) - 1:
                h = F.relu(h)
        return h


def source(options: argparse.Namespace, graph: hr.Graph, train: Tensor) -> hr.Plan:
    """Return the one thing in which strategies differ: the nodes of a batch."""
    if options.strategy == "global":
        return hr.GlobalBatch(graph, seed=7)
    if options.strategy == "mini":
        return hr.ItemSampler(train, batch_size=options.batch_size, shuffle=True, seed=7)
    clusters = hr.Partition.metis(graph, options.clusters)
    return hr.ClusterSampler(clusters, options.clusters_per_batch, boundary=options.boundary, seed=7)


def add_up(*values: float) -> list[float]:
    """Return the sums over all ranks."""
    sums = torch.tensor(values, dtype=torch.float64)
    if dist.is_initialized():
        dist.all_reduce(sums)
    return sums.tolist()


def run_epoch(loader: hr.Loader, model: nn.Module, optimizer: torch.optim.Optimizer | None) -> tuple[float, float]:
    """Train for an epoch, or only look; return the mean loss and the accuracy over labelled seeds of all ranks."""
    model.train(optimizer is not None)
    loss_sum = correct = seen = 0.0
    with torch.set_grad_enabled(optimizer is not None):
        for batch in loader:
            assert batch.y is not None  # the plan fetches labels
            out = model(batch, batch.x, batch.blocks, batch.edge["norm"])[batch.seed_index]
            loss = F.cross_entropy(out, batch.y, reduction="sum", ignore_index=-1)
            (labelled,) = add_up(int((batch.y >= 0).sum()))
            if optimizer is not None and labelled:
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
    parser.add_argument("--strategy", choices=("global", "mini", "cluster"), default="global")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=1024, help="seeds of a minibatch")
    parser.add_argument("--clusters", type=int, default=50)
    parser.add_argument("--clusters-per-batch", type=int, default=10)
    parser.add_argument("--boundary", type=int, default=0, help="hops around the clusters that take part")
    options = parser.parse_args()

    if "RANK" in os.environ:  # set by torchrun
        dist.init_process_group("gloo")
    is_first = not dist.is_initialized() or dist.get_rank() == 0

    data = datasets.load(options.data)
    graph = hr.Graph.from_coo(data.src, data.dst, num_nodes=data.num_nodes).with_self_loops()
    labels = {name: torch.full_like(data.y, -1) for name in ("train", "test")}  # -1: not of this part
    for name, y in labels.items():
        y[getattr(data, name)] = data.y[getattr(data, name)]
    store = hr.FeatureStore(node={"x": data.x, **labels}, edge={"norm": hr.gcn_norm(graph)})

    def make_loader(begin: hr.Plan, part: str) -> hr.Loader:
        plan = begin.sample_in_subgraph(graph, num_hops=NUM_LAYERS)
        return plan.fetch_feature(store, node=["x"], edge=["norm"], labels=part).loader(cooperative=True)

    torch.manual_seed(0)  # the same parameters on every rank
    model = hr.cooperative(Network(data.x.shape[1], 64, data.num_classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    train = make_loader(source(options, graph, data.train), "train")
    test = make_loader(hr.GlobalBatch(graph, seed=7), "test")
    for epoch in train.epochs(options.epochs):
        loss, _ = run_epoch(train, model, optimizer)
        _, accuracy = run_epoch(test, model, None)
        if is_first:
            print(f"epoch {epoch}  loss {loss:.4f}  test accuracy {accuracy:.4f}", flush=True)
    train.close()
    test.close()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
