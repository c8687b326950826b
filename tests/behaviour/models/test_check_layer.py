"""hr.testing.check_layer tells layers that give a node the same row alone as beside others from those that do not."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph

pyg = pytest.importorskip("torch_geometric.nn")

WIDTH = 6


@cache
def batch(seed: int = 0) -> hr.MiniBatch:
    x = torch.randn(NUM_NODES, WIDTH, generator=torch.Generator().manual_seed(seed))
    plan = hr.ItemSampler(NUM_NODES, batch_size=60, shuffle=True, seed=seed).sample_neighbor(graph(), [5, 5])
    return next(iter(plan.fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"]).loader()))


class Own(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.lin, self.function = nn.Linear(WIDTH, WIDTH), function

    def forward(self, x: Tensor, block: hr.Block) -> Tensor:
        return self.function(self.lin(x), block)


def sums(x: Tensor, block: hr.Block) -> Tensor:
    return block.aggregate(x)


def by_sources(x: Tensor, block: hr.Block) -> Tensor:
    degrees = torch.bincount(block.indices.long(), minlength=block.num_src)
    return block.aggregate(x / degrees.clamp(min=1)[:, None])


def centred(x: Tensor, block: hr.Block) -> Tensor:
    return block.aggregate(x - x.mean(0))


def numbered(x: Tensor, block: hr.Block) -> Tensor:
    return block.aggregate(x) * torch.arange(block.num_dst)[:, None]


def narrower(x: Tensor, block: hr.Block) -> Tensor:
    return block.aggregate(x)[:, : block.num_dst]


RIGHT = [
    lambda: hr.nn.SAGEConv(WIDTH, 3),
    lambda: hr.nn.GATConv(WIDTH, 3),
    lambda: pyg.SAGEConv(WIDTH, 3),
    lambda: pyg.GATv2Conv(WIDTH, 3, 2),
    lambda: Own(sums),
]
WRONG = [
    lambda: hr.nn.GCNConv(WIDTH, 3),
    *(lambda one=one: Own(one) for one in (by_sources, centred, numbered, narrower)),
]


@pytest.mark.parametrize("make", RIGHT)
def test_layers_whose_rows_depend_on_their_own_edges_pass(make):
    layer = make().train()
    assert hr.testing.check_layer(layer, batch()) == 16
    assert layer.training


@pytest.mark.parametrize("make", WRONG)
def test_other_layers_are_told(make):
    with pytest.raises(AssertionError, match=r"expected node \d+ to get the same row alone as beside other"):
        hr.testing.check_layer(make(), batch())


def test_a_layer_may_be_called_otherwise():
    def call(layer: nn.Module, x: Tensor, block: hr.Block) -> Tensor:
        return layer(x, block.edge_index)[: block.num_dst]

    assert hr.testing.check_layer(pyg.GCNConv(WIDTH, 3, normalize=False), batch(), call) == 16
    with pytest.raises(AssertionError, match="GCNConv: expected node"):
        hr.testing.check_layer(pyg.GCNConv(WIDTH, 3), batch(), call)


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(hr.InputError, match="expected a batch of one process with x"):
        hr.testing.check_layer(hr.nn.SAGEConv(WIDTH, 3), next(iter(hr.ItemSampler(3).loader())))
    with pytest.raises(AssertionError, match="expected a row for each of 60 destinations"):
        hr.testing.check_layer(Own(lambda x, block: x[:1]), next(iter(one_hop().loader())))


def one_hop() -> hr.Plan:
    store = hr.FeatureStore(node={"x": torch.randn(NUM_NODES, WIDTH)})
    return hr.ItemSampler(60, batch_size=60).sample_neighbor(graph(), [5]).fetch_feature(store, node=["x"])
