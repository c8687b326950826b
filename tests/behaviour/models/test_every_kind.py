"""A layer computes the same on every kind of message graph: one process, ranks that share nodes or edges, rounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from message_graphs import KINDS, WIDTH, Case, differences, of_pyg, on_ranks, without_loops
from torch import Tensor, nn

import headrace as hr

from plans import graph

pyg = pytest.importorskip("torch_geometric.nn")
utils = pytest.importorskip("torch_geometric.utils")

HEADS = 2


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, WIDTH))


class OfBothEnds(pyg.MessagePassing):
    """Attention of both ends and the edge, with a softmax in the message, and an update of its own."""

    def __init__(self) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.lin = nn.Linear(WIDTH, WIDTH)
        self.score = nn.Linear(2 * WIDTH + 3, 1)

    def forward(self, x: tuple[Tensor, Tensor] | Tensor, edge_index: Tensor, attr: Tensor) -> Tensor:
        x = x if isinstance(x, tuple) else (x, x)
        return self.propagate(edge_index, x=x, attr=attr)

    def message(self, x_i: Tensor, x_j: Tensor, attr: Tensor, index: Tensor, size_i: int) -> Tensor:
        score = self.score(torch.cat([x_i, x_j, attr], 1)).tanh()
        return self.lin(x_j) * utils.softmax(score, index, num_nodes=size_i)

    def update(self, out: Tensor, x: tuple[Tensor, Tensor]) -> Tensor:
        return out + x[1]


class WithOwnReduction(pyg.MessagePassing):
    """Messages that two reductions of its own add up, the second one by what the first one gave."""

    def __init__(self) -> None:
        super().__init__(node_dim=0)
        self.lin = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: tuple[Tensor, Tensor] | Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        x = x if isinstance(x, tuple) else (x, x)
        return self.propagate(edge_index, x=x, weight=weight)

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        return self.lin(x_j) * weight[:, None]

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int) -> Tensor:
        sums = inputs.new_zeros(dim_size, WIDTH).index_add(0, index, inputs)
        gated = inputs * sums[index].sigmoid()
        return inputs.new_zeros(dim_size, WIDTH).index_add(0, index, gated)


def of_heads(layer: Any, **options: Any) -> nn.Module:
    return layer(WIDTH, WIDTH // HEADS, HEADS, **options)


PNA: dict[str, Any] = {"aggregators": ["mean", "min", "max", "std"], "scalers": ["identity", "amplification"]}

CASES = {
    "SAGEConv": Case(lambda: pyg.SAGEConv(WIDTH, WIDTH)),
    "SAGEConv, pool": Case(lambda: pyg.SAGEConv(WIDTH, WIDTH, aggr="max", project=True)),
    "SAGEConv, max": Case(lambda: pyg.SAGEConv(WIDTH, WIDTH, aggr="max")),
    "GCNConv": Case(lambda: pyg.GCNConv(WIDTH, WIDTH), call="rows"),
    "GCNConv, weighted": Case(lambda: pyg.GCNConv(WIDTH, WIDTH), ("weight",), call="rows"),
    "GATConv": Case(lambda: of_heads(pyg.GATConv, edge_dim=3), ("attr",)),
    "GATv2Conv": Case(lambda: of_heads(pyg.GATv2Conv, edge_dim=3), ("attr",)),
    "GINConv": Case(lambda: pyg.GINConv(mlp(), train_eps=True)),
    "GINEConv": Case(lambda: pyg.GINEConv(mlp(), edge_dim=3), ("attr",)),
    "GraphConv": Case(lambda: pyg.GraphConv(WIDTH, WIDTH), ("weight",)),
    "TransformerConv": Case(lambda: of_heads(pyg.TransformerConv, edge_dim=3, beta=True), ("attr",)),
    "GENConv": Case(lambda: pyg.GENConv(WIDTH, WIDTH, norm=None, learn_t=True, edge_dim=3), ("attr",)),
    "RGCNConv": Case(lambda: pyg.RGCNConv(WIDTH, WIDTH, 4, num_bases=2), ("type",)),
    "PNAConv": Case(
        lambda: pyg.PNAConv(WIDTH, WIDTH, **PNA, deg=torch.bincount(graph().in_degrees()), edge_dim=3),
        ("attr",),
        call="rows",
    ),
    "own, of both ends": Case(OfBothEnds, ("attr",)),
    "own, with reductions": Case(WithOwnReduction, ("weight",)),
}

OURS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "SAGEConv": (lambda: hr.nn.SAGEConv(WIDTH, WIDTH), "SAGEConv"),
    "SAGEConv, max": (lambda: hr.nn.SAGEConv(WIDTH, WIDTH, aggr="max"), "SAGEConv, max"),
    "SAGEConv, pool": (lambda: hr.nn.SAGEConv(WIDTH, WIDTH, aggr="max", project=True), "SAGEConv, pool"),
    "GCNConv": (lambda: hr.nn.GCNConv(WIDTH, WIDTH), "GCNConv"),
    "GCNConv, weighted": (lambda: hr.nn.GCNConv(WIDTH, WIDTH), "GCNConv, weighted"),
    "GINConv": (lambda: hr.nn.GINConv(mlp(), train_eps=True), "GINConv"),
    "GINEConv": (lambda: hr.nn.GINEConv(mlp(), edge_dim=3), "GINEConv"),
    "GraphConv": (lambda: hr.nn.GraphConv(WIDTH, WIDTH), "GraphConv"),
    "GATv2Conv": (lambda: of_heads(hr.nn.GATv2Conv, edge_dim=3), "GATv2Conv"),
    "PNAConv": (
        lambda: hr.nn.PNAConv(WIDTH, WIDTH, **PNA, deg=torch.bincount(graph().in_degrees()), edge_dim=3),
        "PNAConv",
    ),
    "RGCNConv": (lambda: hr.nn.RGCNConv(WIDTH, WIDTH, 4, num_bases=2), "RGCNConv"),
    "TransformerConv": (lambda: of_heads(hr.nn.TransformerConv, edge_dim=3, beta=True), "TransformerConv"),
}
CASES |= {f"hr.nn.{name}": Case(make, CASES[like].edges, "block", CASES[like]) for name, (make, like) in OURS.items()}


@cache
def alone(name: str, kind: str) -> dict[str, Tensor]:
    """Return what PyG computes in one process: for rounds on the whole graph, else on a block.

    Both are the same but for degrees of sources, which a block has those of its own edges for.
    """
    case = CASES[name].expected
    return of_pyg(case) if kind == "rounds" else on_ranks(case, "block", 1)[0]


def assert_equal(name: str, expected: dict[str, Tensor], shares: list[dict[str, Tensor]]) -> None:
    if "GCNConv, weighted" in name:  # PyG gives a loop a gradient also where another loop of the node has replaced it
        expected, *shares = (without_loops(tables, "weight") for tables in (expected, *shares))
    off = differences(expected, shares)
    assert max(off.values()) <= 1e-12, off


@pytest.mark.slow
@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_that_of_one_process(name, kind, world_size):
    assert_equal(name, alone(name, kind), on_ranks(CASES[name], kind, world_size))


@pytest.mark.parametrize("name", CASES)
def test_a_block_of_one_process_is_that_of_pyg(name):
    case = CASES[name]
    assert_equal(name, alone(name, "block"), on_ranks(case, "block", 1))
    if "GCN" not in name:  # a block has all edges of its destinations, but not of the sources
        assert_equal(name, of_pyg(case.expected), on_ranks(case, "block", 1))
