"""Layers of types on ranks that cooperate: the rows of one process, or a refusal that tells how to write them."""

from __future__ import annotations

import pytest
import torch
from ranks import run_ranks
from torch import nn
from torch_geometric.nn import HeteroConv, RGCNConv, SAGEConv

import headrace as hr

from plans import NODE_TYPES, NUM_NODES, RELATIONS, typed_graph

WIDTH = 6


class OfDictionaries(nn.Module):
    """A module of a user's own, as the error proposes it: HeteroConv from one tensor to one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = HeteroConv({one: SAGEConv((WIDTH, WIDTH), WIDTH) for one in RELATIONS})

    def forward(self, h, block):
        places = {name: block.types.places(name) for name in NODE_TYPES}
        out = self.conv({name: h[place] for name, place in places.items()}, block.edge_index_dict)
        made = h[: block.num_dst].clone()
        for name, rows in out.items():
            place = places[name]
            made[place[place < block.num_dst]] = rows[: int((place < block.num_dst).sum())]
        return made


class TwiceOfTypes(OfDictionaries):
    """One that passes messages twice."""

    def forward(self, h, block):
        rows = super().forward(h, block)
        return super().forward(torch.cat([rows, h[block.num_dst :]]), block)


class Net(nn.Module):
    def __init__(self, make, call) -> None:
        super().__init__()
        self.layers = nn.ModuleList([make(), make()])
        self.call = call

    def forward(self, h, blocks):
        for layer, block in zip(self.layers, blocks, strict=True):
            h = self.call(layer, h, block).relu()
        return h


def of_block(layer, h, block):
    return layer(h, block)


def of_edge_types(layer, h, block):
    return layer((h, h[: block.num_dst]), block.edge_index, block.edge_types)


def of_dictionaries(layer, h, block):
    rows = {name: h[block.types.places(name)] for name in NODE_TYPES}
    return torch.cat(list(layer.conv(rows, block.edge_index_dict).values()))


def rows_of(net, **options):
    """The output of each seed in the first batches."""
    x = torch.randn(NUM_NODES, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    items = hr.ItemSampler({"a": torch.arange(0, 120, 3)}, batch_size=20, shuffle=True, seed=5)
    plan = items.sample_neighbor(typed_graph(), [4, 4]).fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])
    found = {}
    with plan.loader(**options) as loader:
        for batch in loader:
            out = net(batch, batch.x, batch.blocks)[batch.seed_index]
            found.update(zip(batch.seeds.tolist(), out.tolist(), strict=True))
    return found


def made(make, call, layers=None):
    net = Net(make, call).double()
    generator = torch.Generator().manual_seed(0)  # not torch's own, which the threads of all ranks draw from
    for parameter in net.parameters():
        nn.init.normal_(parameter, generator=generator)
    return hr.cooperative(net, layers=None if layers is None else layers(net))


@pytest.mark.filterwarnings("ignore:There exist node types")
@pytest.mark.parametrize(
    ("make", "call"),
    [(OfDictionaries, of_block), (lambda: RGCNConv(WIDTH, WIDTH, len(RELATIONS)), of_edge_types)],
)
def test_layers_of_types_are_exact(make, call):
    one = rows_of(made(make, call))
    shares = run_ranks(2, lambda comm: rows_of(made(make, call), comm=comm, cooperative=True))
    together = {seed: out for share in shares for seed, out in share.items()}
    assert together.keys() == one.keys()
    for seed, out in one.items():
        assert together[seed] == pytest.approx(out, abs=1e-9)


@pytest.mark.filterwarnings("ignore:There exist node types")
@pytest.mark.parametrize(
    ("make", "call", "layers", "expected"),
    [
        (
            OfDictionaries,
            of_dictionaries,
            lambda net: [one.conv for one in net.layers],
            "got a dictionary of a, b, lon",
        ),
        (TwiceOfTypes, of_block, None, "to give a node the same row whatever"),
    ],
)
def test_others_are_refused(make, call, layers, expected):
    def work(comm):
        with pytest.raises(hr.HeadraceError) as caught:
            rows_of(made(make, call, layers), comm=comm, cooperative=True)
        return isinstance(caught.value, hr.InputError), str(caught.value)

    told = run_ranks(2, work)
    assert any(is_own for is_own, _ in told)
    assert all(expected in text for _, text in told)
