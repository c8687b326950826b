"""What the watch of layers on several ranks can tell: of any block, in either mode, and wherever edges are from."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from ranks import run_ranks
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import scatter

import headrace as hr

WIDTH = 6


def graph(kind: str = "random") -> hr.Graph:
    if kind == "ring":  # as many edges as nodes in every block
        return hr.Graph.from_coo(torch.arange(200), (torch.arange(200) + 1) % 200, num_nodes=200)
    ends = torch.randint(0, 200, (2, 1_500), generator=torch.Generator().manual_seed(0))
    return hr.Graph.from_coo(*ends, num_nodes=200)


class Net(nn.Module):
    def __init__(self, make, call) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([make(), make()])
        self.call = call

    def forward(self, h: Tensor, blocks) -> Tensor:
        for conv, block in zip(self.layers, blocks, strict=True):
            h = self.call(conv, h, block)[: block.num_dst]
        return h


def square(conv, h, block):
    return conv(h, block.edge_index)


def weighted(conv, h, block):
    return conv(h, block.edge_index, h.new_ones(block.num_edges))


def loss_of(size, make, call, *, kind="random", fanouts=(4, 4), batch_size=50, modes=(True,)):
    """Return the sum of losses over so many ranks; all ranks raise what one of them does."""
    x = torch.randn(200, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    store, one = hr.FeatureStore(node={"x": x}), graph(kind)

    model = Net(make, call).double()  # ranks are threads here, and torch's generator is of the process

    def rank(comm):
        net = hr.cooperative(copy.deepcopy(model))
        plan = hr.ItemSampler(100, batch_size=batch_size, seed=1).sample_neighbor(one, list(fanouts))
        total = 0.0
        with plan.fetch_feature(store, node=["x"]).loader(cooperative=True, comm=comm) as loader:
            for training in modes:
                net.train(training)
                for batch in loader:
                    total += float(net(batch, batch.x, batch.blocks)[batch.seed_index].square().sum().detach())
        return total

    return sum(run_ranks(size, rank))


class OfSources(nn.Module):
    """Divides the rows of sources by their numbers of in-edges, of which a rank does not know those of all."""

    def forward(self, h: Tensor, edge_index: Tensor, weight: Tensor | None = None) -> Tensor:
        sources, destinations = edge_index
        weight = h.new_ones(len(sources)) if weight is None else weight
        degrees = h.new_zeros(len(h)).index_add(0, destinations, weight)
        messages = (h / (1 + degrees)[:, None])[sources] * weight[:, None]
        return torch.zeros_like(h).index_add(0, destinations, messages)


#: Blocks with as many edges as destinations, or as sources, or with few destinations in each rank.
BLOCKS = {
    "one in-edge": {"fanouts": (1, 1)},
    "ring": {"kind": "ring", "fanouts": (-1, -1)},
    "few seeds": {"batch_size": 4, "fanouts": (3, 3)},
}


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("call", [square, weighted])
def test_layers_are_watched_on_blocks_of_any_size(blocks, call):
    with pytest.raises(hr.HeadraceError, match="a node the same row whatever edges"):
        loss_of(2, OfSources, call, **BLOCKS[blocks])


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("call", [square, weighted])
def test_degrees_of_sources_come_from_their_owners(blocks, call):
    one, two = (loss_of(size, lambda: pyg.GCNConv(WIDTH, WIDTH), call, **BLOCKS[blocks]) for size in (1, 2))
    assert two == pytest.approx(one, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("call", [square, weighted])
def test_exact_layers_pass_on_blocks_of_any_size(blocks, call):
    def make():
        return pyg.GraphConv(WIDTH, WIDTH, aggr="mean")

    one = loss_of(1, make, call, **BLOCKS[blocks])
    assert loss_of(2, make, call, **BLOCKS[blocks]) == pytest.approx(one, rel=1e-9)


class OfTheirBatch(nn.Module):
    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        h = h - h.mean(0) if self.training else h
        return scatter(h[edge_index[0]], edge_index[1], dim=0, dim_size=len(h), reduce="mean")


def test_layers_are_watched_in_both_modes():
    assert loss_of(2, OfTheirBatch, square, modes=(False,)) > 0
    with pytest.raises(hr.HeadraceError, match="a node the same row whatever edges"):
        loss_of(2, OfTheirBatch, square, modes=(False, True))


class Within(nn.Module):
    """A layer that has its edges from somewhere, or returns its rows in something."""

    def __init__(self, conv: type[nn.Module] = OfSources) -> None:
        super().__init__()
        self.conv = conv()


class InMapping(Within):
    def forward(self, h: Tensor, edge_index: Tensor) -> dict[str, Tensor]:
        return {"h": self.conv(h, edge_index)}


class OfData(Within):
    def forward(self, h: Tensor, data: Data) -> Tensor:
        return self.conv(h, data.edge_index)


class OfAttribute(Within):
    def forward(self, h: Tensor) -> Tensor:
        return self.conv(h, self.edges)


class OfPositions(Within):
    def forward(self, h: Tensor, indptr: Tensor, indices: Tensor) -> Tensor:
        ends = torch.arange(len(indptr) - 1).repeat_interleave(indptr.diff())
        return self.conv(h, torch.stack([indices, ends]))


def of_attribute(conv, h, block):
    conv.edges = block.edge_index
    return conv(h)


class OfMeans(nn.Module):
    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return scatter(h[edge_index[0]], edge_index[1], dim=0, dim_size=len(h), reduce="mean")


OTHER_FORMS = [
    (InMapping, lambda conv, h, block: conv(h, block.edge_index)["h"]),
    (OfData, lambda conv, h, block: conv(h, Data(edge_index=block.edge_index))),
    (OfAttribute, of_attribute),
    (OfPositions, lambda conv, h, block: conv(h, block.indptr, block.indices)),
]


@pytest.mark.parametrize(("make", "call"), OTHER_FORMS)
def test_layers_are_refused_wherever_they_have_edges_from(make, call):
    with pytest.raises(hr.HeadraceError, match=r"a node the same row whatever edges.* reads degrees .*of sources"):
        loss_of(2, make, call)


@pytest.mark.parametrize(("make", "call"), OTHER_FORMS)
def test_layers_are_equal_wherever_they_have_edges_from(make, call):
    one, two = (loss_of(size, lambda: make(OfMeans), call) for size in (1, 2))
    assert two == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("make", [lambda: nn.Linear(WIDTH, WIDTH), lambda: nn.LayerNorm(WIDTH)])
def test_layers_of_single_rows_need_no_edges(make):
    def call(layer, h, block):
        return layer(h)

    assert loss_of(2, make, call) == pytest.approx(loss_of(1, make, call), rel=1e-9)
