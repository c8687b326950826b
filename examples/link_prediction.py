"""Predict the links of a graph by GraphSAGE, on neighbourhoods from which the links to predict are left out.

    python examples/link_prediction.py
    python examples/link_prediction.py --data cora.npz

Seeds are pairs of nodes. Each batch of them gets as many negative pairs, drawn anew, and the sampler picks no edge
between the seeds, in either direction: else the model would find the answer in the neighbourhood. A link's score is the
dot product of its two nodes.
"""

from __future__ import annotations

import argparse

import datasets
import torch
import torch.nn.functional as F
from auc import auc
from torch import Tensor, nn

import headrace as hr


class Sage(nn.Module):
    """GraphSAGE (arXiv 1706.02216) of two layers, with a dot product for each pair."""

    def __init__(self, num_in: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([hr.nn.SAGEConv(num_in, width), hr.nn.SAGEConv(width, width)])

    def forward(self, batch: hr.MiniBatch) -> Tensor:
        first, last = self.layers
        h = F.relu(first(F.dropout(batch.x, 0.5, self.training), batch.blocks[0]))
        source, destination = last(h, batch.blocks[1])[batch.seed_index].unbind(1)
        return (source * destination).sum(1)


def split(data: datasets.Dataset) -> dict[str, Tensor]:
    """Return links to train, validate and test on, each once: int64[num_links, 2]."""
    links = torch.stack([data.src, data.dst], 1).long()
    links = links[links[:, 0] < links[:, 1]]
    order = torch.randperm(len(links), generator=torch.Generator().manual_seed(0))
    test, val, train = links[order].tensor_split([len(links) // 10, len(links) // 5])
    return {"train": train, "val": val, "test": test}


def both_ways(links: Tensor, num_nodes: int) -> hr.Graph:
    return hr.Graph.from_coo(*torch.cat([links, links.flip(1)]).unbind(1), num_nodes=num_nodes)


def run(name: str, epochs: int, batch_size: int, *, exclude: bool = True) -> tuple[float, float]:
    """Return the AUC of training links in their last epoch, and that of test links where that of validation is best."""
    data = datasets.load(name) if name != "sbm" else datasets.block_model(num_nodes=5_000, mixing=0.2)
    links = split(data)
    # Messages go along the links to train on. Negatives are no links at all where links are held out to be found.
    known, all_links = (
        both_ways(links["train"], data.num_nodes),
        both_ways(torch.cat([*links.values()]), data.num_nodes),
    )
    store = hr.FeatureStore(node={"x": data.x})

    def make_loader(part: str, graph: hr.Graph) -> hr.Loader:
        items = hr.ItemSampler(links[part], batch_size=batch_size, shuffle=part == "train", seed=0)
        pairs = items.sample_uniform_negative(graph, 1, reject=True)
        if exclude:
            pairs = pairs.exclude_seed_edges(reverse=True)
        return pairs.sample_neighbor(known, [10, 10]).fetch_feature(store, node=["x"]).loader()

    train, *held_out = make_loader("train", known), make_loader("val", all_links), make_loader("test", all_links)
    torch.manual_seed(0)
    model = Sage(data.x.shape[1], 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    best = of_test = of_training = 0.0
    for epoch in train.epochs(epochs):
        model.train()
        found, losses = [], []
        for batch in train:
            assert batch.y is not None  # negatives bring labels
            scores = model(batch)
            loss = F.binary_cross_entropy_with_logits(scores, batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append((scores.detach(), batch.y))
            losses.append(loss.item())
        of_training = auc(*map(torch.cat, zip(*found, strict=True)))
        model.eval()
        with torch.no_grad():
            val, test = (
                auc(*map(torch.cat, zip(*[(model(batch), batch.y) for batch in loader], strict=True)))
                for loader in held_out
            )
        print(f"epoch {epoch}  loss {sum(losses) / len(losses):.4f}  validation AUC {val:.4f}", flush=True)
        if val > best:
            best, of_test = val, test
    return of_training, of_test


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sbm", help="sbm (generated), a .npz file, ogbn-..., or a name PyG knows")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--keep-seed-edges", action="store_true", help="to see what goes wrong: answers are to be seen")
    options = parser.parse_args()
    training, test = run(options.data, options.epochs, options.batch_size, exclude=not options.keep_seed_edges)
    print(f"training AUC {training:.4f}, test AUC {test:.4f}")


if __name__ == "__main__":
    main()
