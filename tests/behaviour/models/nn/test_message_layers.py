"""Layers of hr.nn that are functions of messages, against PyG's of the same parameters: outputs and all gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headrace as hr

pyg = pytest.importorskip("torch_geometric.nn")

WIDTH, EDGE_WIDTH = 5, 3
NUM_SRC, NUM_DST = 9, 6


def block_of(sources: list[int], destinations: list[int], **options: Any) -> hr.Block:
    """A block of NUM_SRC and NUM_DST nodes, whose edges are sorted by destination."""
    ends = torch.tensor([sources, destinations], dtype=torch.int64).reshape(2, -1)
    ends = ends[:, ends[1].argsort(stable=True)]
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(ends[1], minlength=NUM_DST).cumsum(0)])
    return hr.Block(indptr, ends[0].to(torch.int32), NUM_SRC, NUM_DST, **options)


#: A loop, an edge three times, a hub of more edges than others, a node without edges.
BLOCKS = {
    "all kinds": block_of([0, 7, 7, 7, 8, 2, *range(9), *range(9)], [0, 0, 0, 0, 1, 1, *[3] * 18]),
    "loops alone": block_of([0, 1, 2, 2], [0, 1, 2, 2]),
    "one edge": block_of([8], [2]),
    "no edges": block_of([], []),
}


def drawn(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def off(one: Tensor, other: Tensor) -> float:
    return float((one - other).detach().norm() / other.detach().norm().clamp(min=1e-30)) if one.numel() else 0.0


def compare(ours: nn.Module, theirs: nn.Module, block: hr.Block, inputs: list[Tensor], *, pair: bool = False) -> None:
    """Assert that a layer of PyG has the same parameters, outputs and gradients of all inputs and parameters.

    Parameters
    ----------
    ours, theirs
        The layers.
    block
        The edges.
    inputs
        Rows of sources, of destinations in a pair, and values of edges.
    pair
        Whether ours has rows of both ends, too.
    """
    theirs.load_state_dict(ours.state_dict())
    ours.load_state_dict(theirs.state_dict())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    results = []
    for layer in (ours, theirs):
        leaves = [one.clone().requires_grad_(one.is_floating_point()) for one in inputs]
        x = tuple(leaves[:2]) if pair else leaves[0]
        values = leaves[2 if pair else 1 :]
        if layer is theirs:
            x = x if pair else (x, x[: block.num_dst])
            out = layer(x, block.edge_index, *values)
        else:
            out = layer(x, block, *values)
        leaves = [*(one for one in leaves if one.requires_grad), *layer.parameters()]
        factors = drawn(*out.shape, seed=1)
        gradients = torch.autograd.grad((out * factors).sum(), leaves, allow_unused=True)
        gradients = [torch.zeros_like(one) if own is None else own for one, own in zip(leaves, gradients, strict=True)]
        split = len(leaves) - len(list(layer.parameters()))
        # One vector of parameters: a gradient that is rounding alone has no scale.
        results.append([out, *gradients[:split], torch.cat([one.flatten() for one in gradients[split:]])])
    for one, other in zip(*results, strict=True):
        assert one.shape == other.shape
        assert off(one, other) <= 1e-12


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 4))


def attr(block: hr.Block, width: int = EDGE_WIDTH) -> Tensor:
    return drawn(block.num_edges, width, seed=4)


def weight(block: hr.Block) -> Tensor:
    return drawn(block.num_edges, seed=5).abs() + 0.1


#: By name: a layer of a namespace, and the values of edges that it takes.
LAYERS: dict[str, tuple[Callable[[Any], nn.Module], list[Callable[[hr.Block], Tensor]]]] = {
    "GraphConv": (lambda of: of.GraphConv(WIDTH, 4), []),
    "GraphConv, weighted": (lambda of: of.GraphConv(WIDTH, 4), [weight]),
    "GraphConv, mean": (lambda of: of.GraphConv(WIDTH, 4, aggr="mean", bias=False), [weight]),
    "GINEConv": (lambda of: of.GINEConv(mlp(), 0.5, edge_dim=EDGE_WIDTH), [attr]),
    "GINEConv, without edge_dim": (lambda of: of.GINEConv(mlp(), train_eps=True), [lambda block: attr(block, WIDTH)]),
    "SAGEConv, pool": (lambda of: of.SAGEConv(WIDTH, 4, project=True), []),
    "GINConv": (lambda of: of.GINConv(mlp(), train_eps=True), []),
    "SAGEConv": (lambda of: of.SAGEConv(WIDTH, 4), []),
    "GATv2Conv": (lambda of: of.GATv2Conv(WIDTH, 4, 2, edge_dim=EDGE_WIDTH), [attr]),
    "GATv2Conv, loops of sums": (lambda of: of.GATv2Conv(WIDTH, 4, edge_dim=EDGE_WIDTH, fill_value="add"), [attr]),
    "GATv2Conv, loops of numbers": (
        lambda of: of.GATv2Conv(WIDTH, 4, 2, edge_dim=EDGE_WIDTH, fill_value=0.5, concat=False, bias=False),
        [attr],
    ),
    "GATv2Conv, shared": (lambda of: of.GATv2Conv(WIDTH, 4, 3, share_weights=True, negative_slope=0.1), []),
    "GATv2Conv, residual": (lambda of: of.GATv2Conv(WIDTH, 4, 2, residual=True), []),
    "GATv2Conv, without loops": (lambda of: of.GATv2Conv(WIDTH, 4, 3, add_self_loops=False), []),
    "TransformerConv": (lambda of: of.TransformerConv(WIDTH, 4, 2, edge_dim=EDGE_WIDTH), [attr]),
    "TransformerConv, gated": (lambda of: of.TransformerConv(WIDTH, 4, 3, beta=True), []),
    "TransformerConv, mean of heads": (
        lambda of: of.TransformerConv(WIDTH, 4, 3, edge_dim=EDGE_WIDTH, concat=False, beta=True, bias=False),
        [attr],
    ),
    "TransformerConv, without own rows": (lambda of: of.TransformerConv(WIDTH, 4, root_weight=False), []),
}

DEGREES = torch.tensor([2, 3, 4, 0, 1])
PNA: dict[str, dict[str, Any]] = {
    "all": {
        "aggregators": ["mean", "min", "max", "std", "var", "sum"],
        "scalers": ["identity", "amplification", "attenuation", "linear", "inverse_linear"],
    },
    "towers": {"aggregators": ["mean", "std"], "scalers": ["identity"], "towers": 2, "edge_dim": EDGE_WIDTH},
    "divided": {
        "aggregators": ["max", "var"],
        "scalers": ["attenuation"],
        "towers": 2,
        "divide_input": True,
        "pre_layers": 2,
        "post_layers": 3,
        "train_norm": True,
    },
}


class OfDestinations(nn.Module):
    """PyG's PNAConv, which takes one table, with the rows of destinations alone."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def load_state_dict(self, state: Any) -> None:
        self.conv.load_state_dict(state)

    def state_dict(self) -> Any:
        return self.conv.state_dict()

    def forward(self, x: tuple[Tensor, Tensor], edge_index: Tensor, *values: Tensor) -> Tensor:
        return self.conv(x[0], edge_index, *values)[:NUM_DST]


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("name", PNA)
def test_aggregates_and_scalers_are_those_of_pyg(name, kind):
    block, options = BLOCKS[kind], PNA[name]
    torch.manual_seed(0)
    ours, theirs = (of.PNAConv(6, 4, deg=DEGREES, **options).double() for of in (hr.nn, pyg))
    values = [attr(block)] if "edge_dim" in options else []
    compare(ours, OfDestinations(theirs), block, [drawn(NUM_SRC, 6), *values])


RELATIONS = {
    "RGCNConv": {},
    "RGCNConv, bases": {"num_bases": 2, "aggr": "sum"},
    "RGCNConv, blocks": {"num_blocks": 2, "root_weight": False, "bias": False},
}


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("name", RELATIONS)
@pytest.mark.parametrize("pair", [False, True], ids=["one table", "both ends"])
def test_relations_are_those_of_pyg(name, kind, pair):
    """Some types have no edges, of most destinations."""
    block, options = BLOCKS[kind], RELATIONS[name]
    types = torch.randint(0, 3, (block.num_edges,), generator=torch.Generator().manual_seed(7))
    rows = [drawn(NUM_SRC, 6), drawn(NUM_DST, 6, seed=6)][: 1 + pair]
    layers = (of.RGCNConv(6, 4, 5, **options).double() for of in (hr.nn, pyg))
    compare(*layers, block, [*rows, types], pair=pair)


def test_weights_count_by_relation():
    torch.manual_seed(0)
    layer = hr.nn.RGCNConv(WIDTH, 4, 2).double()
    once = block_of([7, 8, 6], [0, 0, 0], weight=torch.tensor([2.0, 1.0, 3.0]))
    repeated = block_of([7, 7, 8, 6, 6, 6], [0] * 6)
    x = drawn(NUM_SRC, WIDTH)
    types = torch.tensor([0, 0, 1])
    assert off(layer(x, once, types), layer(x, repeated, torch.tensor([0, 0, 0, 1, 1, 1]))) <= 1e-12


def test_types_out_of_range_are_refused():
    with pytest.raises(hr.InputError, match=r"expected edge_type in \[0, 2\), got 0 to 2; pass num_relations="):
        hr.nn.RGCNConv(2, 2, 2)(torch.zeros(NUM_SRC, 2), block_of([0, 1], [0, 1]), torch.tensor([0, 2]))
    with pytest.raises(hr.InputError, match=r"expected edge_type, .* for edges without types, got none"):
        hr.nn.RGCNConv(2, 2, 2)(torch.zeros(NUM_SRC, 2), block_of([0, 1], [0, 1]))


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("pair", [False, True], ids=["one table", "both ends"])
def test_it_is_that_of_pyg(name, kind, pair):
    make, values = LAYERS[name]
    block = BLOCKS[kind]
    rows = [drawn(NUM_SRC, WIDTH), drawn(NUM_DST, WIDTH, seed=6)][: 1 + pair]
    compare(make(hr.nn).double(), make(pyg).double(), block, rows + [one(block) for one in values], pair=pair)


@pytest.mark.parametrize("name", ["GraphConv", "SAGEConv", "GATv2Conv", "TransformerConv"])
def test_both_ends_have_their_own_columns(name):
    block = BLOCKS["all kinds"]
    inputs = [drawn(NUM_SRC, WIDTH), drawn(NUM_DST, 7)]
    compare(
        getattr(hr.nn, name)((WIDTH, 7), 4).double(),
        getattr(pyg, name)((WIDTH, 7), 4).double(),
        block,
        inputs,
        pair=True,
    )


@pytest.mark.parametrize("aggr", ["max", "min"])
def test_extremes_of_one_message_each(aggr):
    block = BLOCKS["one edge"]
    options = {"aggr": aggr}
    inputs = [drawn(NUM_SRC, WIDTH), weight(block)]
    compare(hr.nn.GraphConv(WIDTH, 4, **options).double(), pyg.GraphConv(WIDTH, 4, **options).double(), block, inputs)


@pytest.mark.parametrize("name", ["GATv2Conv", "TransformerConv"])
def test_an_edge_of_weight_two_counts_as_two_edges(name):
    """In a softmax; a mean of the features of loops is that of edges, without their weights."""
    torch.manual_seed(0)
    options = {"add_self_loops": True} if name == "GATv2Conv" else {}
    layer = getattr(hr.nn, name)(WIDTH, 4, 2, **options).double()
    once = block_of([7, 8, 6, 0], [0, 0, 1, 1], weight=torch.tensor([2.0, 1.0, 3.0, 0.0]))
    repeated = block_of([7, 7, 8, 6, 6, 6], [0, 0, 0, 1, 1, 1])
    x = drawn(NUM_SRC, WIDTH)
    assert off(layer(x, once), layer(x, repeated)) <= 1e-12


def test_importance_weights_count_in_sums():
    torch.manual_seed(0)
    once = block_of([7, 8, 6], [0, 0, 1], weight=torch.tensor([2.0, 1.0, 3.0]))
    repeated = block_of([7, 7, 8, 6, 6, 6], [0, 0, 0, 1, 1, 1])
    x, features = drawn(NUM_SRC, WIDTH), drawn(3, WIDTH, seed=4)
    places = torch.tensor([0, 0, 1, 2, 2, 2])
    gine, plain = hr.nn.GINEConv(mlp()).double(), hr.nn.GraphConv(WIDTH, 4).double()
    assert off(gine(x, once, features), gine(x, repeated, features[places])) <= 1e-12
    assert off(plain(x, once), plain(x, repeated)) <= 1e-12


@pytest.mark.parametrize("name", ["GATv2Conv", "TransformerConv"])
def test_dropout_of_attention_is_that_of_the_seed(name):
    torch.manual_seed(0)
    layer, block, x = getattr(hr.nn, name)(WIDTH, 4, 2, dropout=0.5), BLOCKS["all kinds"], drawn(NUM_SRC, WIDTH).float()
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(layer(x, block))
    assert torch.equal(*outputs[:2])
    assert not torch.equal(*outputs[1:])
    assert torch.equal(layer.eval()(x, block), layer(x, block))
