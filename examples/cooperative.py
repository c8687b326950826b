"""Train with several processes that make every minibatch together.

    torchrun --nproc-per-node 2 examples/cooperative.py
    torchrun --nproc-per-node 2 examples/cooperative.py --independent

Each node has an owner, which samples its neighbours and reads its features for all ranks (cooperative minibatching,
arXiv 2310.12403), so nothing is done twice. The ranks' shares of a batch are together the batch of one process: the
loss and the accuracy printed are the same for any number of processes, also for one without torchrun. With
``--independent`` each rank makes its share of the batch by itself, and the table at the end counts more work.
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


class SageLayer(nn.Module):
    """GraphSAGE with mean aggregation (arXiv 1706.02216)."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.own, self.neighbors = nn.Linear(num_in, num_out), nn.Linear(num_in, num_out, bias=False)

    def forward(self, block: hr.Block, h: Tensor) -> Tensor:
        starts = block.indptr[:-1].to(block.indices.dtype)
        mean = F.embedding_bag(block.indices, h, starts, mode="mean")
        return self.own(h[: block.num_dst]) + self.neighbors(mean)


class Network(nn.Module):
    """Written for one process: nothing in here knows of ranks."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(map(SageLayer, widths[:-1], widths[1:]))

    def forward(self, blocks: tuple[hr.Block, ...], h: Tensor) -> Tensor:
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(block, h)
            if i < len(self.layers) - 1:
                h = F.relu(h)
        return h


def make_loader(options: argparse.Namespace, seeds: Tensor, graph: hr.Graph, store: hr.FeatureStore) -> hr.Loader:
    return (
        hr.ItemSampler(seeds, batch_size=options.batch_size, shuffle=True, seed=7)
        .sample_layer_neighbor(graph, fanouts=[10, 10, 10])
        .fetch_feature(store, node=["x"], labels="y")
        .loader(cooperative=not options.independent)
    )


def add_up(*values: float) -> list[float]:
    """Return the sums over all ranks."""
    sums = torch.tensor(values, dtype=torch.float64)
    if dist.is_initialized():
        dist.all_reduce(sums)
    return sums.tolist()


def run_epoch(loader: hr.Loader, model: nn.Module, optimizer: torch.optim.Optimizer | None) -> tuple[float, float]:
    """Train for an epoch, or only look; return the mean loss and the accuracy over the seeds of all ranks."""
    loss_sum = correct = seen = 0.0
    with torch.set_grad_enabled(optimizer is not None):
        for batch in loader:
            assert batch.y is not None  # the plan fetches labels
            out = model(batch, batch.blocks, batch.x)[batch.seed_index]
            loss = F.cross_entropy(out, batch.y, reduction="sum")
            if optimizer is not None:
                optimizer.zero_grad()
                (loss / batch.num_global_seeds).backward()
                hr.sum_gradients(model)
                optimizer.step()
            loss_sum += loss.item()
            correct += int((out.argmax(dim=1) == batch.y).sum())
            seen += len(batch.seeds)
    loss_sum, correct, seen = add_up(loss_sum, correct, seen)
    return loss_sum / seen, correct / seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sbm", help="sbm (generated), a .npz file, ogbn-..., or a name PyG knows")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=1024, help="seeds of all ranks together")
    parser.add_argument("--independent", action="store_true", help="each rank makes its share by itself")
    options = parser.parse_args()

    if "RANK" in os.environ:  # set by torchrun
        dist.init_process_group("gloo")
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)

    data = datasets.load(options.data)
    graph = hr.Graph.from_coo(data.src, data.dst, num_nodes=data.num_nodes)
    store = hr.FeatureStore(node={"x": data.x, "y": data.y})
    torch.manual_seed(0)  # the same parameters on every rank
    model = hr.cooperative(Network([data.x.shape[1], 128, 128, data.num_classes]))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    train, test = (make_loader(options, seeds, graph, store) for seeds in (data.train, data.test))
    with train, test:
        for epoch in train.epochs(options.epochs):
            train_loss, _ = run_epoch(train, model, optimizer)
            _, accuracy = run_epoch(test, model, None)
            if rank == 0:
                print(f"epoch {epoch}  loss {train_loss:.4f}  test accuracy {accuracy:.4f}", flush=True)
        stats = train.stats()
        rows, edges = add_up(stats.total("rows"), stats.total("edges"))
        if rank == 0:
            kind = "independent" if options.independent else "cooperative"
            print(f"{world_size} ranks, {kind}: {edges:,.0f} edges sampled, {rows:,.0f} rows fetched in all")
            print(stats)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
