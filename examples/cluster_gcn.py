"""Train Cluster-GCN: batches are clusters of METIS, and layers hear nodes of the batch alone.

    python examples/cluster_gcn.py --data cora.npz
    python examples/cluster_gcn.py --data cora.npz --boundary 1

A batch is a few clusters as a whole with the links between them (arXiv 1905.07953), so its memory is bounded by its
nodes, however deep the model is. With a boundary, nodes so many hops around the clusters take part: more work for each
batch, and fewer links that are cut. After training, all nodes are classified with all of their links.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import datasets
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headrace as hr


class Network(nn.Module):
    """Convolutions normalised within the batch, whose own rows count more (diagonal enhancement)."""

    def __init__(self, widths: list[int], diag_lambda: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(hr.nn.ClusterGCNConv(*pair, diag_lambda=diag_lambda) for pair in pairwise(widths))

    def forward(self, h: Tensor, blocks: tuple[hr.Block, ...]) -> Tensor:
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(F.dropout(h, 0.5, self.training), block)
            if i < len(self.layers) - 1:
                h = F.relu(h)
        return h


@torch.no_grad()
def accuracy(model: nn.Module, loader: hr.Loader, nodes: Tensor, y: Tensor) -> float:
    """Return the share of nodes that are classified rightly, seen with the whole graph."""
    model.eval()
    (batch,) = loader
    found = model(batch.x, batch.blocks).argmax(dim=1)
    return float((found[nodes] == y[nodes]).float().mean())


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

    data = datasets.load(options.data)
    graph = hr.Graph.from_coo(data.src, data.dst, num_nodes=data.num_nodes)
    clusters = hr.Partition.metis(graph, options.clusters)
    print(clusters.report(graph, labelled=data.train))
    trained = torch.full_like(data.y, -1)  # others have no loss
    trained[data.train] = data.y[data.train]
    store = hr.FeatureStore(node={"x": data.x, "y": trained})

    def make_loader(source: hr.Plan) -> hr.Loader:
        plan = source.sample_in_subgraph(graph, num_hops=options.layers)
        return plan.fetch_feature(store, node=["x"], labels="y").loader()

    torch.manual_seed(0)
    model = Network([data.x.shape[1], *[128] * (options.layers - 1), data.num_classes], options.diag_lambda)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    sampled = hr.ClusterSampler(clusters, options.clusters_per_batch, boundary=options.boundary, seed=7)
    train, everything = make_loader(sampled), make_loader(hr.GlobalBatch(graph, seed=7))
    with train, everything:
        for epoch in train.epochs(options.epochs):
            model.train()
            losses = []
            for batch in train:
                assert batch.y is not None  # the plan fetches labels
                if bool((batch.y < 0).all()):  # clusters without a node to train on
                    continue
                out = model(batch.x, batch.blocks)[batch.seed_index]
                loss = F.cross_entropy(out, batch.y, ignore_index=-1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            found = accuracy(model, everything, data.test, data.y)
            print(f"epoch {epoch}  loss {sum(losses) / len(losses):.4f}  test accuracy {found:.4f}", flush=True)
        print(train.stats())


if __name__ == "__main__":
    main()
