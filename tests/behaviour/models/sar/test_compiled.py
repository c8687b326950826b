"""torch.compile of models over shards: layers run as they are, and what is between them is compiled."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from ranks import run_ranks
from sharded import WIDTH, features, owners
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph

pyg = pytest.importorskip("torch_geometric.nn")

if not hasattr(torch.library, "register_autograd"):
    pytest.skip("torch before 2.4 compiles around our operations", allow_module_level=True)

LAYERS: dict[str, Any] = {
    "hr.nn.SAGEConv": hr.nn.SAGEConv,
    "SAGEConv": pyg.SAGEConv,
    "GATConv": pyg.GATConv,
    "GraphConv": pyg.GraphConv,
}


class Net(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = kind(WIDTH, WIDTH), kind(WIDTH, WIDTH)

    def forward(self, x: Tensor, place: Any) -> Tensor:
        return self.second(self.first(x, place).relu(), place).sin()


@pytest.mark.slow
@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("name", LAYERS)
def test_a_compiled_model_is_the_model(name, world_size):
    plain = Net(LAYERS[name]).double()

    def work(comm: hr.Comm) -> list[list[Tensor]]:
        place = hr.sar.ShardedGraph(graph(), owners("hash", world_size), comm)
        outcomes = []
        for is_compiled in (False, True):
            model = hr.sar.wrap(copy.deepcopy(plain), place)
            call = torch.compile(model, backend="eager") if is_compiled else model
            for _ in range(2):
                model.zero_grad()
                out = call(place.rows(features(NUM_NODES, WIDTH)), place)
                out.sum().backward()
            outcomes.append([out.detach(), *(one.grad for one in model.parameters())])
        return outcomes

    try:
        for expected, compiled in run_ranks(world_size, work):
            for one, other in zip(expected, compiled, strict=True):
                torch.testing.assert_close(other, one, rtol=1e-12, atol=1e-12)
    finally:
        torch.compiler.reset()
