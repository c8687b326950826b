"""Train GraphSAGE on features of bfloat16: half of the bytes are gathered, in memory and on disk.

    python examples/half_precision.py
    python examples/half_precision.py --data cora.npz --dtype float32

The store keeps rows as they are, so a batch has bfloat16 rows. Parameters stay float32: ``torch.autocast`` casts what
products take, and `hr.nn` adds up in float32. A model of bfloat16 parameters, ``model.bfloat16()``, needs no autocast.
"""

from __future__ import annotations

import argparse

import datasets
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headrace as hr


class GraphSAGE(nn.Module):
    """Two layers, with dropout before each."""

    def __init__(self, num_in: int, width: int, num_classes: int) -> None:
        super().__init__()
        self.first, self.second = hr.nn.SAGEConv(num_in, width), hr.nn.SAGEConv(width, num_classes)

    def forward(self, batch: hr.MiniBatch) -> Tensor:
        h = self.first(F.dropout(batch.x, 0.5, self.training), batch.blocks[0]).relu()
        return self.second(F.dropout(h, 0.5, self.training), batch.blocks[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sbm", help="sbm (generated), a .npz file, ogbn-..., or a name PyG knows")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    data = datasets.load(options.data)
    graph = hr.Graph.from_coo(data.src, data.dst, num_nodes=data.num_nodes)
    store = hr.FeatureStore(node={"x": data.x.to(getattr(torch, options.dtype)), "y": data.y})

    def loader(ids: Tensor, fanouts: list[int]) -> hr.Loader:
        items = hr.ItemSampler(ids, batch_size=options.batch_size, shuffle=True, seed=options.seed)
        return items.sample_neighbor(graph, fanouts).fetch_feature(store, node=["x"], labels="y").loader()

    # float16 would need a scaler of gradients, which bfloat16 with its range of float32 does not.
    narrow = torch.autocast("cpu", torch.bfloat16, enabled=options.dtype != "float32")
    model = GraphSAGE(data.x.shape[1], 64, data.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    training = loader(data.train, [10, 10])
    for epoch in training.epochs(options.epochs):
        total = 0.0
        for batch in training:
            with narrow:
                loss = F.cross_entropy(model(batch).float(), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * batch.num_seeds
        print(f"epoch {epoch}  loss {total / len(data.train):.4f}", flush=True)

    model.eval()
    hits = 0
    with torch.no_grad(), narrow:
        for batch in loader(data.test, [-1, -1]):
            hits += int((model(batch).argmax(1) == batch.y).sum())
    gathered = training.stats()["fetch_feature"]["bytes"]
    print(f"{gathered:,.0f} bytes gathered  test accuracy {hits / len(data.test):.4f}")


if __name__ == "__main__":
    main()
