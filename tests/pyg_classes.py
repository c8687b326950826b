"""Every class of PyG that passes messages: how to make a layer, what it takes, and why some are refused by parts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sharded import WIDTH, edge_index, edge_types, features
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph

pyg = pytest.importorskip("torch_geometric.nn")

OUT = 4

#: Rows of nodes, [num_nodes, ...], and values of edges, [num_edges, ...], in the order of their ids.
NODES: dict[str, Callable[[], Tensor]] = {
    "x": lambda: features(NUM_NODES, WIDTH),
    "x_0": lambda: features(NUM_NODES, WIDTH, seed=7),
    "layers": lambda: features(NUM_NODES, 3, WIDTH, seed=8),
    "position": lambda: features(NUM_NODES, 3, seed=9),
    "normal": lambda: nn.functional.normalize(features(NUM_NODES, 3, seed=10), dim=1),
    "kind": lambda: torch.arange(NUM_NODES) % 2,
}
EDGES: dict[str, Callable[[], Tensor]] = {
    "weight": lambda: features(graph().num_edges, seed=5).abs() + 0.1,
    "attr": lambda: features(graph().num_edges, 3, seed=6),
    "pseudo": lambda: features(graph().num_edges, 3, seed=6).sigmoid(),
    "type": edge_types,
}
GRAPH = "graph"


def mlp(width: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, out))


def degrees() -> Tensor:
    return torch.bincount(graph().in_degrees())


PNA: dict[str, Any] = {"aggregators": ["mean", "min", "max", "std"], "scalers": ["identity", "amplification"]}

#: What makes a layer, and what it takes.
EQUAL: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "AGNNConv": (pyg.AGNNConv, "x graph"),
    "APPNP": (lambda: pyg.APPNP(3, 0.1), "x graph"),
    "CGConv": (lambda: pyg.CGConv(WIDTH, 3), "x graph attr"),
    "DNAConv": (lambda: pyg.DNAConv(WIDTH, 2, 1), "layers graph"),
    "EGConv": (lambda: pyg.EGConv(WIDTH, OUT, num_heads=2, num_bases=2), "x graph"),
    "EdgeConv": (lambda: pyg.EdgeConv(mlp(2 * WIDTH, OUT)), "x graph"),
    "FAConv": (lambda: pyg.FAConv(WIDTH), "x x_0 graph"),
    "FeaStConv": (lambda: pyg.FeaStConv(WIDTH, OUT, 2), "x graph"),
    "FiLMConv": (lambda: pyg.FiLMConv(WIDTH, OUT), "x graph"),
    "GATConv": (lambda: pyg.GATConv(WIDTH, OUT, 2, edge_dim=3), "x graph attr"),
    "GATv2Conv": (lambda: pyg.GATv2Conv(WIDTH, OUT, 2, edge_dim=3), "x graph attr"),
    "GCN2Conv": (lambda: pyg.GCN2Conv(WIDTH, 0.1, 0.5, 1), "x x_0 graph"),
    "GCNConv": (lambda: pyg.GCNConv(WIDTH, OUT), "x graph"),
    "GENConv": (lambda: pyg.GENConv(WIDTH, OUT, norm=None, learn_t=True, edge_dim=3), "x graph attr"),
    "GINConv": (lambda: pyg.GINConv(mlp(WIDTH, OUT), train_eps=True), "x graph"),
    "GINEConv": (lambda: pyg.GINEConv(mlp(WIDTH, OUT), edge_dim=3), "x graph attr"),
    "GMMConv": (lambda: pyg.GMMConv(WIDTH, OUT, 3, 2), "x graph pseudo"),
    "GatedGraphConv": (lambda: pyg.GatedGraphConv(WIDTH, 2), "x graph weight"),
    "GeneralConv": (lambda: pyg.GeneralConv(WIDTH, OUT, 3, attention=True, heads=2), "x graph attr"),
    "GraphConv": (lambda: pyg.GraphConv(WIDTH, OUT), "x graph weight"),
    "HEATConv": (lambda: pyg.HEATConv(WIDTH, OUT, 2, 4, 4, 3, 4, 2), "x graph kind type attr"),
    "LEConv": (lambda: pyg.LEConv(WIDTH, OUT), "x graph weight"),
    "LGConv": (pyg.LGConv, "x graph weight"),
    "MixHopConv": (lambda: pyg.MixHopConv(WIDTH, OUT), "x graph"),
    "NNConv": (lambda: pyg.NNConv(WIDTH, OUT, mlp(3, WIDTH * OUT)), "x graph attr"),
    "PDNConv": (lambda: pyg.PDNConv(WIDTH, OUT, 3, 5, add_self_loops=False), "x graph attr"),
    "PNAConv": (lambda: pyg.PNAConv(WIDTH, OUT, **PNA, deg=degrees(), edge_dim=3), "x graph attr"),
    "PPFConv": (lambda: pyg.PPFConv(mlp(WIDTH + 4, OUT), mlp(OUT, OUT)), "x position normal graph"),
    "PointGNNConv": (lambda: pyg.PointGNNConv(mlp(WIDTH, 3), mlp(WIDTH + 3, 4), mlp(4, WIDTH)), "x position graph"),
    "PointNetConv": (lambda: pyg.PointNetConv(mlp(WIDTH + 3, OUT), mlp(OUT, OUT)), "x position graph"),
    "PointTransformerConv": (lambda: pyg.PointTransformerConv(WIDTH, OUT), "x position graph"),
    "RGATConv": (lambda: pyg.RGATConv(WIDTH, OUT, 4, heads=2, edge_dim=3), "x graph type attr"),
    "RGCNConv": (lambda: pyg.RGCNConv(WIDTH, OUT, 4, num_bases=2), "x graph type"),
    "ResGatedGraphConv": (lambda: pyg.ResGatedGraphConv(WIDTH, OUT, edge_dim=3), "x graph attr"),
    "SAGEConv": (lambda: pyg.SAGEConv(WIDTH, OUT), "x graph"),
    "SGConv": (lambda: pyg.SGConv(WIDTH, OUT, 2), "x graph weight"),
    "SSGConv": (lambda: pyg.SSGConv(WIDTH, OUT, 0.1, 2), "x graph weight"),
    "SimpleConv": (pyg.SimpleConv, "x graph"),
    "TAGConv": (lambda: pyg.TAGConv(WIDTH, OUT, 2), "x graph weight"),
    "TransformerConv": (lambda: pyg.TransformerConv(WIDTH, OUT, 2, edge_dim=3, beta=True), "x graph attr"),
}

_NUMBERS = "of edge_index: a rank does not know the nodes of others by the numbers"

#: Of those that are refused, a part of the reason.
REFUSED: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "ARMAConv": (lambda: pyg.ARMAConv(WIDTH, OUT), "x graph", "rows of nodes"),
    "ChebConv": (lambda: pyg.ChebConv(WIDTH, OUT, 3), "x graph", _NUMBERS),
    "ClusterGCNConv": (lambda: pyg.ClusterGCNConv(WIDTH, OUT), "x graph", _NUMBERS),
    "FastRGCNConv": (lambda: pyg.FastRGCNConv(WIDTH, OUT, 4), "x graph type", "messages ask for edge_index_j"),
    "FiLMConv, of types": (lambda: pyg.FiLMConv(WIDTH, OUT, 4), "x graph type", _NUMBERS),
    "MFConv": (lambda: pyg.MFConv(WIDTH, OUT), "x graph", _NUMBERS),
    "MeshCNNConv": (lambda: pyg.MeshCNNConv(WIDTH, OUT), "x graph", "several edges at once"),
    "SuperGATConv": (lambda: pyg.SuperGATConv(WIDTH, OUT), "x graph", _NUMBERS),
    "WLConvContinuous": (pyg.WLConvContinuous, "x graph weight", _NUMBERS),
}

_EDGES = edge_index()
IS_LOOP = _EDGES[0] == _EDGES[1]


def outcome(
    layer: nn.Module,
    takes: str,
    edges: Any,
    of_nodes: Callable[[Tensor], Tensor],
    of_edges: Callable[[Tensor], Tensor],
    comm: hr.Comm | None = None,
) -> dict[str, Any]:
    """Return the rows of a layer, and all gradients of a sum of them.

    Parameters
    ----------
    layer, takes
        The layer, and its arguments by name.
    edges
        The argument for the graph.
    of_nodes, of_edges
        Return the rows of a rank's nodes and edges, from those of all.
    comm
        The channel of the ranks.
    """
    given = {
        name: edges if name == GRAPH else of_nodes(NODES[name]()) if name in NODES else of_edges(EDGES[name]())
        for name in takes.split()
    }
    inputs = {
        name: one.clone().requires_grad_() for name, one in given.items() if name != GRAPH and one.is_floating_point()
    }
    out = layer(*(inputs.get(name, one) for name, one in given.items()))
    out.sin().sum().backward()
    if comm is not None:
        hr.sum_gradients(layer, comm)
    gradients = {name: one.grad for name, one in inputs.items()}
    return {"rows": out.detach(), **gradients, **{f"of {name}": one.grad for name, one in layer.named_parameters()}}


def assert_as_whole(values: dict[str, Any], whole: dict[str, Any], nodes: Tensor, edge_ids: Tensor) -> None:
    """Rows and gradients of a rank are those of one process: of its nodes, of its edges, of all parameters."""
    for name, of_all in whole.items():
        value, expected = values[name], of_all
        if expected is None:  # of a parameter that is not used
            assert value is None or not value.any()
            continue
        if name in EDGES:
            # PyG gives the weight of a loop a gradient also where another loop of the node has replaced it.
            kept = ~IS_LOOP[edge_ids].view(-1, *(1 for _ in value.shape[1:]))
            value, expected = value * kept, of_all[edge_ids] * kept
        elif name == "rows" or name in NODES:
            expected = of_all[nodes]
        torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-9)


class Recorded(nn.Module):
    """A model of one layer, that keeps the rows of destinations."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *args: Any, num_dst: int) -> Tensor:
        self.rows = self.layer(*args)[:num_dst]
        return self.rows.detach()


def outcome_of_batch(layer: nn.Module, takes: str, batch: hr.MiniBatch, comm: hr.Comm) -> dict[str, Any]:
    """Return the outcome of a layer on the first block of a batch that ranks share."""
    block, model = batch.blocks[0], Recorded(copy.deepcopy(layer))
    together = hr.cooperative(model, [model.layer])

    class Layer(nn.Module):
        def forward(self, *args: Any) -> Tensor:
            together(batch, *args, num_dst=block.num_dst)
            return model.rows

        def named_parameters(self) -> Any:
            return model.layer.named_parameters()

        def parameters(self) -> Any:
            return model.layer.parameters()

    return outcome(
        Layer(),
        takes,
        block.edge_index,
        lambda all_rows: all_rows[batch.n_id],
        lambda values: values[block.edge_ids],
        comm,
    )
