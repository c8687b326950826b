"""Full-batch training in which rank 1 does something else than the others, in its third step."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from ranks import partition
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph

PARTS_AT = 2

#: What rank 1 does, and what all ranks are to hear of.
WAYS: dict[str, tuple[str, ...]] = {
    "requires_grad": ("for a mean in layer first (gradients for x)", "for a mean in layer first (no gradients)"),
    "order": ("for a mean in layer first", "for a mean in layer second"),
    "fewer layers": ("for a mean in layer second", "for attention with dropout 0.5"),
    "evaluation": ("for attention with dropout 0.5 (", "for attention ("),
}

#: Where rank 1 raises an error.
ERRORS = ("layer", "loss", "message", "backward")


def _refuse(gradient: Tensor) -> Tensor:
    raise ValueError("a gradient of rank one is out of order")


class Network(nn.Module):
    """Two layers of equal shapes, whose order their exchanges alone do not show."""

    def __init__(self) -> None:
        super().__init__()
        import torch_geometric.nn as pyg

        self.first, self.second = pyg.SAGEConv(4, 4), pyg.SAGEConv(4, 4)

    def forward(self, x: Tensor, place: hr.sar.ShardedGraph, way: str) -> Tensor:
        if way == "layer":
            raise ValueError("a layer of rank one is out of order")
        layers = (self.second, self.first) if way == "order" else (self.first, self.second)
        for layer in layers[: 1 if way == "fewer layers" else 2]:
            x = layer(x, place).tanh()
            if way == "backward":  # in each of the layers' own backward directions the others wait for this rank
                x.register_hook(_refuse)
        drops = 0.0 if way == "evaluation" else 0.5
        x = place.attend(x[:, None], x[:, :1], x[:, 1:2], dropout=drops, key=1)[:, 0]

        def message(source: Tensor, destination: None, edge: None) -> Tensor:
            if way == "message":
                raise ValueError("a message of rank one is out of order")
            return source.exp()

        return place.update_all(message, x)


def train(comm: hr.Comm, way: str = "", *, steps: int = 4, alone: bool = False) -> int:
    """Train; rank 1 parts if there is a way to. Return how many steps were taken.

    Parameters
    ----------
    alone
        Whether an error of rank 1 is not inside ``with``.
    """
    place = hr.sar.ShardedGraph(graph(), partition("hash", comm.world_size), comm)
    with nullcontext() if alone else place:
        model = Network()
        for number, one in enumerate(model.parameters()):  # ranks that are threads have one generator
            nn.init.normal_(one, generator=torch.Generator().manual_seed(number))
        hr.sar.wrap(model, place)
        x = place.rows(torch.randn(NUM_NODES, 4, generator=torch.Generator().manual_seed(1)))
        for step in range(steps):
            parts = way if comm.rank == 1 and step == PARTS_AT else ""
            if parts == "no step":  # nobody can tell, but in the end
                continue
            loss = model(x.clone().requires_grad_(parts != "requires_grad"), place, parts).sum()
            if parts == "loss":
                raise ValueError("the loss of rank one is out of order")
            loss.backward()
            hr.sum_gradients(model, comm)
            place.total(loss.item())
    return steps
