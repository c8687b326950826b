"""Train on the whole graph at once with several processes, each of which holds a part of it.

    torchrun --nproc-per-node 4 examples/full_batch_sar.py
    torchrun --nproc-per-node 4 examples/full_batch_sar.py --model gat --prefetch 1

Layers pass messages shard by shard, and the rows of other processes are freed at once (sequential aggregation and
rematerialisation, SAR, arXiv 2111.06483). The model is made of PyG's layers; loss and accuracy are the same for any
number of processes, also for one without torchrun.
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
from torch_geometric.nn import GATConv, SAGEConv

import headrace as hr


class Network(nn.Module):
    """Written for PyG: nothing in here knows of shards. What PyG calls edge_index is the graph."""

    def __init__(self, kind: str, widths: list[int]) -> None:
        super().__init__()
        make = SAGEConv if kind == "sage" else GATConv
        # Without bias: the norms behind have one.
        self.convs = nn.ModuleList(make(width, after, bias=False) for width, after in pairwise(widths))
        self.norms = nn.ModuleList(map(nn.BatchNorm1d, widths[1:-1]))
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: Tensor, edge_index: hr.sar.ShardedGraph) -> Tensor:
        for conv, norm in zip(self.convs[:-1], self.norms, strict=True):
            x = self.dropout(norm(conv(x, edge_index)).relu())
        out: Tensor = self.convs[-1](x, edge_index)
        return out


def partitioned(graph: hr.Graph, parts: int, method: str) -> hr.Partition:
    """Return who owns which node; the fewer edges are cut, the fewer rows travel."""
    if method == "metis":
        return hr.Partition.metis(graph, parts)
    if method == "stream":
        return hr.Partition.stream(graph, parts, passes=3)
    return hr.Partition.range(graph.num_nodes, parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sbm", help="sbm (generated), a .npz file, ogbn-..., or a name PyG knows")
    parser.add_argument("--model", choices=["sage", "gat"], default="sage")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--partition", choices=["range", "stream", "metis"], default="stream")
    parser.add_argument("--mode", choices=["sar", "sequential", "one-shot"], default="sar")
    parser.add_argument("--prefetch", type=int, choices=[0, 1], default=0)
    options = parser.parse_args()

    if "RANK" in os.environ:  # set by torchrun
        dist.init_process_group("gloo")
    world_size = dist.get_world_size() if dist.is_initialized() else 1

    data = datasets.load(options.data)
    whole = hr.Graph.from_coo(data.src, data.dst, num_nodes=data.num_nodes)
    owners = partitioned(whole, world_size, options.partition)
    graph = hr.sar.ShardedGraph(whole, owners, mode=options.mode, prefetch=options.prefetch)
    x, y = graph.rows(data.x), graph.rows(data.y)
    train, test = (torch.isin(graph.owned, nodes) for nodes in (data.train, data.test))
    num_train, num_test = graph.total(int(train.sum())), graph.total(int(test.sum()))

    torch.manual_seed(0)  # the same parameters on every rank
    model = Network(options.model, [data.x.shape[1], options.hidden, options.hidden, data.num_classes])
    hr.sar.wrap(model, graph)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with graph:  # an error in one process reaches the others, with its traceback
        for epoch in range(options.epochs):
            model.train()
            # Divided by the number of all ranks, so that gradients are to be summed. A rank without labelled nodes has
            # a loss of 0, and goes back through the rounds as well.
            loss = F.cross_entropy(model(x, graph)[train], y[train], reduction="sum") / num_train
            optimizer.zero_grad()
            loss.backward()
            hr.sum_gradients(model, graph.comm)
            optimizer.step()
            model.eval()
            with torch.no_grad():
                correct = (model(x, graph).argmax(1) == y)[test].sum()
            of_all = graph.total(loss.item()), graph.total(int(correct)) / num_test
            if graph.rank == 0:
                print("epoch {}  loss {:.4f}  test accuracy {:.4f}".format(epoch, *of_all), flush=True)
    counts = graph.counts
    own = (
        f"rank {graph.rank}: {graph.num_dst:,} nodes, at most {counts.most_live_rows:,} rows of others in memory, "
        f"{counts.refetches} refetches, {counts.sent_bytes / 1e6:.0f} MB sent"
    )
    lines = [own] * (dist.get_world_size() if dist.is_initialized() else 1)
    if dist.is_initialized():
        dist.all_gather_object(lines, own)
        dist.destroy_process_group()
    if graph.rank == 0:  # one process prints, so that lines stay whole
        print(*lines, sep="\n")


if __name__ == "__main__":
    main()
