"""Train under PyTorch Lightning: a loader stands where it expects a dataloader, and resumes from its checkpoints.

    python examples/lightning_module.py
    python examples/lightning_module.py --epochs 20 --resume runs/lightning/last.ckpt

A `headrace.Loader` has a length and, like torchdata's, a state. So Lightning counts its batches, moves them to the
device of the module, and keeps the position in its checkpoints: a run that was stopped goes on with the next minibatch.
The test accuracy at the end is exact: `headrace.inference` computes layer by layer with whole neighbourhoods.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import datasets
import pytorch_lightning as lightning
import torch
import torch.nn.functional as F
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor, nn

import headrace as hr


class Sage(lightning.LightningModule):
    """GraphSAGE (arXiv 1706.02216) of two layers."""

    def __init__(self, num_in: int, width: int, num_out: int, lr: float = 1e-2) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.ModuleList([hr.nn.SAGEConv(num_in, width), hr.nn.SAGEConv(width, num_out)])
        self.dropout = nn.Dropout(0.5)
        self.lr = lr

    def inference_layers(self) -> list[Any]:
        """Return the layers with what stands between them, as `headrace.inference` runs them one by one."""
        first, last = self.layers
        return [lambda h, block: F.relu(first(h, block)), lambda h, block: last(self.dropout(h), block)]

    def forward(self, batch: hr.MiniBatch) -> Tensor:
        h = batch.x
        for layer, block in zip(self.inference_layers(), batch.blocks, strict=True):
            h = layer(h, block)
        return h[batch.seed_index]

    def training_step(self, batch: hr.MiniBatch) -> Tensor:
        assert batch.y is not None  # the plan fetches labels
        loss = F.cross_entropy(self(batch), batch.y)
        self.log("loss", loss, batch_size=batch.num_seeds, prog_bar=True)
        return loss

    def validation_step(self, batch: hr.MiniBatch) -> None:
        accuracy = (self(batch).argmax(dim=1) == batch.y).float().mean()
        self.log("val_accuracy", accuracy, batch_size=batch.num_seeds, prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.lr)


class Graphs(lightning.LightningDataModule):
    """The plans of training and validation over one graph."""

    def __init__(self, data: datasets.Dataset, fanouts: list[int], batch_size: int) -> None:
        super().__init__()
        self.graph = hr.Graph.from_coo(data.src, data.dst, num_nodes=data.num_nodes)
        self.store = hr.FeatureStore(node={"x": data.x, "y": data.y})
        self.data, self.fanouts, self.batch_size = data, fanouts, batch_size

    def loader(self, nodes: Tensor, fanouts: list[int], *, shuffle: bool) -> hr.Loader:
        items = hr.ItemSampler(nodes, batch_size=self.batch_size, shuffle=shuffle, seed=0)
        return items.sample_neighbor(self.graph, fanouts).fetch_feature(self.store, node=["x"], labels="y").loader()

    def train_dataloader(self) -> hr.Loader:
        return self.loader(self.data.train, self.fanouts, shuffle=True)

    def val_dataloader(self) -> hr.Loader:
        return self.loader(self.data.val, [-1] * len(self.fanouts), shuffle=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sbm", help="sbm (generated), a .npz file, ogbn-..., or a name PyG knows")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--runs", type=Path, default=Path("runs/lightning"), help="folder for checkpoints")
    parser.add_argument("--resume", type=Path, metavar="CHECKPOINT", help="continue from there")
    options = parser.parse_args()

    data = datasets.load(options.data)
    print(data)
    lightning.seed_everything(0)
    graphs = Graphs(data, [10, 10], options.batch_size)
    model = Sage(data.x.shape[1], 64, data.num_classes)
    trainer = lightning.Trainer(
        max_epochs=options.epochs,
        default_root_dir=options.runs,
        callbacks=[ModelCheckpoint(options.runs, save_last=True, every_n_train_steps=50)],
        logger=False,
    )
    trainer.fit(model, graphs, ckpt_path=options.resume)

    predicted = hr.inference(model, graphs.graph, graphs.store).argmax(dim=1)
    accuracy = (predicted[data.test] == data.y[data.test]).float().mean()
    print(f"test accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
