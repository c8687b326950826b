"""Models with a module between two layers, on cooperating ranks."""

from __future__ import annotations

import copy
from contextlib import suppress

import pytest
import torch
from ranks import run_ranks
from torch import Tensor, nn

import headrace as hr

pyg = pytest.importorskip("torch_geometric.nn")

WIDTH = 8


def made(make) -> nn.Module | None:
    """Return a module, None if it takes other arguments than those that are tried here."""
    for arguments in ((), (WIDTH,), (WIDTH, 2)):
        with suppress(Exception):
            return make(*arguments)
    return None


def rows_of(out: object) -> Tensor:
    """Return the rows that a module returns first."""
    return out[0] if isinstance(out, tuple) else out


#: How a model may call a module for its rows.
FORMS = {
    "rows": lambda module, h: module(h),
    "sequence": lambda module, h: rows_of(module(h.unsqueeze(1))).squeeze(1),
    "one item": lambda module, h: rows_of(module(h.unsqueeze(0))).squeeze(0),
    "channels": lambda module, h: module(h.unsqueeze(2)).squeeze(2),
    "transposed": lambda module, h: module(h.t()).t(),
    "itself": lambda module, h: module(h, h, h),
    "layers": lambda module, h: module([h, 2 * h]),
    "by group": lambda module, h: module(h, torch.zeros(len(h), dtype=torch.int64)),
}


class Net(nn.Module):
    def __init__(self, make, form) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([pyg.SAGEConv(WIDTH, WIDTH), pyg.SAGEConv(WIDTH, WIDTH)])
        self.between = made(make)
        self.form = form

    def forward(self, h: Tensor, blocks) -> Tensor:
        for conv, block in zip(self.layers, blocks, strict=True):
            h = conv((h, h[: block.num_dst]), block.edge_index)
            out = rows_of(self.form(self.between, h))
            h = h + out.reshape(*out.shape[:1], -1).mean(1, keepdim=True)  # of any width, and of one row
        return h


def run(size: int, model: Net) -> list[float]:
    """Return loss and gradient of the first layer over so many ranks."""
    generator = torch.Generator().manual_seed(1)
    graph = hr.Graph.from_coo(*torch.randint(0, 300, (2, 2_000), generator=generator), num_nodes=300)
    store = hr.FeatureStore(node={"x": torch.randn(300, WIDTH, dtype=torch.float64, generator=generator)})
    plan = hr.ItemSampler(60, batch_size=60, seed=1).sample_neighbor(graph, [4, 4]).fetch_feature(store, node=["x"])

    def rank(comm: hr.Comm) -> list[float]:
        net = copy.deepcopy(model)
        net = hr.cooperative(net, layers=list(net.layers))
        with plan.loader(cooperative=True, comm=comm) as loader:
            [batch] = loader
            loss = net(batch, batch.x, batch.blocks).sin().sum()
            loss.backward()
            hr.sum_gradients(net, comm)
            [first, *_] = net.parameters()
            return [float(comm.all_reduce_sum(loss.detach()[None])), *first.grad.flatten().tolist()]

    return run_ranks(size, rank, timeout=20.0)[0]


def trained(model: nn.Module, **options) -> list[list[list[float]]]:
    """Return the outputs of two ranks, of two batches in each of three epochs."""
    graph = hr.Graph.from_coo(torch.arange(100), (torch.arange(100) + 1) % 100, num_nodes=100)
    x = torch.arange(100 * WIDTH, dtype=torch.float64).view(100, WIDTH).sin()
    plan = hr.ItemSampler(80, batch_size=40, seed=1).sample_neighbor(graph, [1, 1])
    plan = plan.fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])

    def rank(comm: hr.Comm) -> list[list[float]]:
        copied = copy.deepcopy(model)
        vouched = {name: [getattr(copied, one) for one in names] for name, names in options.items()}
        net = hr.cooperative(copied, **vouched)
        outs = []
        with plan.loader(cooperative=True, comm=comm) as loader:
            for mode in (True, True, False):
                net.train(mode)
                outs += [net(batch, batch.x, batch.blocks).flatten().tolist() for batch in loader]
        assert options or not any("forward" in vars(one) for one in copied.modules() if not hasattr(one, "_orig_mod"))
        return outs

    return run_ranks(2, rank)
