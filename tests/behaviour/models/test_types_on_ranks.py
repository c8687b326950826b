"""Layers of types on ranks that cooperate: the rows of one process, or a refusal that tells how to write them."""

from __future__ import annotations

import copy

import pytest
import torch
from ranks import run_ranks
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, HeteroConv, RGCNConv, SAGEConv

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


class OwnHeteroConv(HeteroConv):
    """One that may do anything with rows by type."""


class OwnOfTypes(OfDictionaries):
    def __init__(self) -> None:
        super().__init__()
        self.conv = OwnHeteroConv({one: SAGEConv((WIDTH, WIDTH), WIDTH) for one in RELATIONS})


class Mixing(SAGEConv):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index) - x[0].mean(0)


class MixedWithinARelation(OfDictionaries):
    def __init__(self) -> None:
        super().__init__()
        layers = {one: SAGEConv((WIDTH, WIDTH), WIDTH) for one in RELATIONS}
        self.conv = HeteroConv({**layers, ("a", "to", "b"): Mixing((WIDTH, WIDTH), WIDTH)})


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
        (OwnOfTypes, of_dictionaries, lambda net: [one.conv for one in net.layers], "got a dictionary of a, b, lon"),
        (
            MixedWithinARelation,
            of_dictionaries,
            lambda net: [one.conv for one in net.layers],
            "to give a node the same row whatever",
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


class ByType(nn.Module):
    """Two layers that take rows by type and return them so, and modules between them for each type."""

    def __init__(self, make) -> None:
        super().__init__()
        self.layers = nn.ModuleList(HeteroConv({one: make(one) for one in RELATIONS}) for _ in range(2))
        self.norms = nn.ModuleDict({name: nn.LayerNorm(WIDTH) for name in NODE_TYPES})

    def forward(self, x, blocks):
        for layer, block in zip(self.layers, blocks, strict=True):
            out = {name: self.norms[name](rows).tanh() for name, rows in layer(x, block.edge_index_dict).items()}
            # Types that no relation leads to keep their rows.
            destinations = block.types.first(block.num_dst)
            x = {name: rows[: destinations.count(name)] for name, rows in {**x, **out}.items()}
        return x


def steps_by_type(model, comm=None, **options):
    """Return the rows of seeds and the gradients of input rows and parameters, over some batches."""
    x = torch.randn(NUM_NODES, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    items = hr.ItemSampler({"a": torch.arange(0, 120, 3)}, batch_size=20, shuffle=True, seed=5)
    plan = items.sample_neighbor(typed_graph(), [4, 4]).fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])
    net = hr.cooperative(copy.deepcopy(model))
    rows, of_rows = torch.zeros_like(x), torch.zeros_like(x)
    with plan.loader(comm=comm, **options) as loader:
        for batch in loader:
            h = batch.x.clone().requires_grad_()
            places = {name: batch.blocks[0].types.places(name) for name in NODE_TYPES}
            out = net(batch, {name: h[place] for name, place in places.items()}, batch.blocks)["a"][batch.seed_index]
            (out * torch.arange(1.0, WIDTH + 1)).sum().backward()
            rows.index_add_(0, batch.seeds, out.detach())
            of_rows.index_add_(0, batch.n_id, h.grad)
    hr.sum_gradients(net, comm)
    # What seeds do not depend on has no gradient in one process, and zeros where its rows are exchanged.
    gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in net.parameters()]
    return rows, of_rows, torch.cat([one.flatten() for one in gradients])


OF_RELATIONS = {
    "sage": lambda relation: SAGEConv((WIDTH, WIDTH), WIDTH),
    "gat": lambda relation: GATConv((WIDTH, WIDTH), WIDTH, add_self_loops=False),
    "gcn": lambda relation: GCNConv(WIDTH, WIDTH) if relation[0] == relation[2] else SAGEConv((WIDTH, WIDTH), WIDTH),
}


@pytest.mark.filterwarnings("ignore:There exist node types")
@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("name", OF_RELATIONS)
def test_models_that_pass_rows_by_type_are_exact(name, world_size):
    torch.manual_seed(0)
    model = ByType(OF_RELATIONS[name]).double()
    rows, of_rows, of_parameters = steps_by_type(model)
    shares = run_ranks(world_size, lambda comm: steps_by_type(model, comm, cooperative=True))
    torch.testing.assert_close(sum(one[0] for one in shares), rows, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(sum(one[1] for one in shares), of_rows, rtol=1e-12, atol=1e-12)
    for one in shares:
        torch.testing.assert_close(one[2], of_parameters, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:There exist node types")
def test_modules_between_layers_are_watched_for_each_type():
    model = ByType(OF_RELATIONS["sage"]).double()
    model.norms["b"] = nn.Softmax(dim=0)
    with pytest.raises(hr.InputError, match="looks at several rows at once, in softmax"):
        run_ranks(2, lambda comm: steps_by_type(model, comm, cooperative=True))
