"""PyG's example of ``NeighborLoader`` with one import changed: it needs neither pyg-lib nor torch-sparse.

    python examples/pyg_drop_in.py
    python examples/pyg_drop_in.py --data Cora --epochs 20

All but the import is as PyG has it: its ``Data``, its loader's parameters, its model, its training loop. Batches are
made ahead of the training loop, in ``num_workers`` threads, and are the same for every number of them.
"""

from __future__ import annotations

import argparse

import datasets
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from headrace.pyg import NeighborLoader  # from torch_geometric.loader import NeighborLoader


def as_pyg_has_it(data: datasets.Dataset) -> Data:
    """Return a data set as PyG's own come."""
    found = Data(x=data.x, edge_index=torch.stack([data.src, data.dst]).long(), y=data.y.long())
    for part in ("train", "val", "test"):
        mask = torch.zeros(data.num_nodes, dtype=torch.bool)
        found[f"{part}_mask"] = mask.index_fill(0, getattr(data, part).long(), True)
    return found


def train(model: GraphSAGE, loader: NeighborLoader, optimizer: torch.optim.Optimizer) -> float:
    """Train for an epoch; return the loss of an example."""
    model.train()
    total_examples = total_loss = 0.0
    for batch in loader:
        optimizer.zero_grad()
        batch_size = batch.batch_size
        out = model(batch.x, batch.edge_index)[:batch_size]
        loss = F.cross_entropy(out, batch.y[:batch_size])
        loss.backward()
        optimizer.step()
        total_examples += batch_size
        total_loss += float(loss) * batch_size
    return total_loss / total_examples


@torch.no_grad()
def accuracy(model: GraphSAGE, loader: NeighborLoader) -> float:
    model.eval()
    hits: list[Tensor] = []
    for batch in loader:
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        hits.append(out.argmax(dim=-1) == batch.y[: batch.batch_size])
    return float(torch.cat(hits).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sbm", help="sbm (generated), a .npz file, ogbn-..., or a name PyG knows")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--num-workers", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(0)
    loaded = datasets.load(options.data)
    data = as_pyg_has_it(loaded)
    print(data)
    common = {"batch_size": options.batch_size, "num_workers": options.num_workers}
    train_loader = NeighborLoader(data, num_neighbors=[30] * 2, input_nodes=data.train_mask, shuffle=True, **common)
    val_loader, test_loader = (
        NeighborLoader(data, num_neighbors=[-1] * 2, input_nodes=data[mask], **common)
        for mask in ("val_mask", "test_mask")
    )
    model = GraphSAGE(data.num_features, hidden_channels=64, out_channels=loaded.num_classes, num_layers=2, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(options.epochs):
        loss = train(model, train_loader, optimizer)
        print(f"epoch {epoch}  loss {loss:.4f}  validation accuracy {accuracy(model, val_loader):.4f}", flush=True)
    print(f"test accuracy {accuracy(model, test_loader):.4f}")


if __name__ == "__main__":
    main()
