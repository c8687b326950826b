"""Layers of `hr.nn` where ranks share edges: outputs and gradients are those of one process."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from hybrid import KINDS, NUM_CLASSES, WIDTH, plan
from ranks import run_ranks
from torch import nn

import headrace as hr
from headrace.pipeline.distributed.channel import Comm

from plans import graph

Arguments = Callable[[hr.MiniBatch, int], tuple[torch.Tensor, ...]]
LAYERS: dict[str, tuple[Callable[[int, int], nn.Module], Arguments]] = {
    "SAGE": (hr.nn.SAGEConv, lambda batch, layer: ()),
    "SAGE, max": (lambda *sizes: hr.nn.SAGEConv(*sizes, "max"), lambda batch, layer: ()),
    "GCN": (lambda *sizes: hr.nn.GCNConv(*sizes, normalize=False), lambda batch, layer: (batch.edge["norm"][layer],)),
    "GIN": (lambda *sizes: hr.nn.GINConv(nn.Linear(*sizes)), lambda batch, layer: ()),
    "GAT": (
        lambda *sizes: hr.nn.GATConv(*sizes, heads=2, concat=False, edge_dim=3, add_self_loops=False),
        lambda batch, layer: (batch.edge["e"][layer],),
    ),
    "GAT, dropout": (
        lambda *sizes: hr.nn.GATConv(*sizes, heads=2, concat=False, dropout=0.4, add_self_loops=False),
        lambda batch, layer: (),
    ),
}


class Network(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        make, self.arguments = LAYERS[name]
        self.layers = nn.ModuleList([make(WIDTH, 8), make(8, NUM_CLASSES)])

    def forward(self, h: torch.Tensor, blocks: tuple[hr.Block, ...], batch: hr.MiniBatch) -> torch.Tensor:
        first, last = self.layers
        return last(first(h, blocks[0], *self.arguments(batch, 0)).tanh(), blocks[1], *self.arguments(batch, 1))


@pytest.mark.parametrize("strategy", ["mini", "cluster with boundary"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_one_process(name, strategy):
    torch.manual_seed(0)
    network, partition = Network(name).double(), KINDS["grid"](graph(), 6)

    def run(comm: Comm | None) -> list[tuple[torch.Tensor, list[torch.Tensor]]]:
        model, found = hr.cooperative(copy.deepcopy(network)), []
        with plan(strategy).loader(comm=comm, cooperative=comm is not None, partition=partition) as loader:
            for batch in loader:
                model.zero_grad()
                out = model(batch, batch.x, batch.blocks, batch)[batch.seed_index]
                (out.square().sum() / batch.num_global_seeds).backward()
                hr.sum_gradients(model, comm)
                found.append((out.detach(), [one.grad.clone() for one in model.parameters()]))
        return found

    alone, shares = run(None), run_ranks(6, run)
    for (out, gradients), *mine in zip(alone, *shares, strict=True):
        torch.testing.assert_close(torch.cat([share[0] for share in mine]), out, rtol=1e-9, atol=1e-9)
        for share in mine:
            for found, expected in zip(share[1], gradients, strict=True):
                torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
