"""Layers of hr.nn over shards: outputs, losses, gradients and steps are those on one block that is the whole graph."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from sharded import NUM_CLASSES, PARTITIONS, WIDTH, assert_equal_training, edge_index, features
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph


class Network(nn.Module):
    """Two layers; `of_edges` are their further arguments."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.first, self.second = kind(WIDTH, 8, **options), kind(8, NUM_CLASSES, **options)

    def forward(self, x: Tensor, place: Any, *of_edges: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x, place, *of_edges)), place, *of_edges)


@cache
def whole() -> hr.Block:
    """All nodes in their order, with all their edges."""
    return hr.Block(graph().indptr, graph().indices, NUM_NODES, NUM_NODES)


def run(model: nn.Module, x: Tensor, edge: Tensor | None, place: Any) -> Tensor:
    if edge is not None and place is whole():
        edge = edge[graph().edge_ids]
    return model(x, place, *(() if edge is None else (edge,)))


def weights() -> Tensor:
    """Those of some nodes' in-edges add up to 0."""
    return features(graph().num_edges, seed=5).abs() * (torch.arange(graph().num_edges) % 5 > 0)


def edge_features() -> Tensor:
    return features(graph().num_edges, 3, seed=6)


#: The layer, its options, and what it takes of edges.
CASES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "gcn": (hr.nn.GCNConv, {}, None),
    "gcn_improved": (hr.nn.GCNConv, {"improved": True, "bias": False}, None),
    "gcn_weights": (hr.nn.GCNConv, {}, weights),
    "gcn_improved_weights": (hr.nn.GCNConv, {"improved": True}, weights),
    "gcn_without_loops": (hr.nn.GCNConv, {"add_self_loops": False}, None),
    "gcn_weights_without_loops": (hr.nn.GCNConv, {"add_self_loops": False}, weights),
    "gcn_plain": (hr.nn.GCNConv, {"normalize": False, "add_self_loops": False}, weights),
    "gat": (hr.nn.GATConv, {}, None),
    "gat_heads": (hr.nn.GATConv, {"heads": 3, "concat": False, "negative_slope": 0.3, "bias": False}, None),
    "gat_edges": (hr.nn.GATConv, {"edge_dim": 3}, edge_features),
    "gat_edges_without_loops": (hr.nn.GATConv, {"edge_dim": 3, "add_self_loops": False}, edge_features),
    "sage": (hr.nn.SAGEConv, {}, None),
    "sage_max": (hr.nn.SAGEConv, {"aggr": "max", "normalize": True}, None),
    "cluster_gcn": (hr.nn.ClusterGCNConv, {"diag_lambda": 0.5}, None),
    "gin": (lambda *sizes: hr.nn.GINConv(nn.Linear(*sizes), 0.1, train_eps=True), {}, None),
}


def check(case: str, world_size: int, **options: Any) -> None:
    torch.manual_seed(1)
    kind, chosen, of_edges = CASES[case]
    edge = None if of_edges is None else of_edges()
    # As PyG does, the layer on a block gives the weight of a loop that another one has replaced a gradient, too.
    options = {"check_edges": not (kind is hr.nn.GCNConv and chosen.get("add_self_loops", True)), **options}
    assert_equal_training(Network(kind, **chosen).double(), run, world_size, edge=edge, alone=whole(), **options)


def test_the_graph_has_nodes_with_several_loops_and_nodes_without_edges():
    loops = edge_index()[0][edge_index()[0] == edge_index()[1]]
    assert loops.unique(return_counts=True)[1].max() > 1
    assert graph().in_degrees().min() == 0


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("world_size", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_training_is_that_on_the_whole_graph(case, world_size):
    check(case, world_size)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("case", ["gcn_weights", "gat_edges"])
def test_however_uneven_the_parts_are(case, kind):
    check(case, 3, kind=kind)


@pytest.mark.parametrize("mode", ["sequential", "one-shot"])
def test_in_other_modes(mode):
    check("gcn_improved_weights", 2, mode=mode)


@pytest.mark.parametrize("layer", [hr.nn.GATConv, hr.nn.GATv2Conv, hr.nn.TransformerConv])
def test_dropout_does_not_depend_on_the_ranks(layer):
    torch.manual_seed(2)
    model = Network(layer, heads=2, concat=False, dropout=0.4).double()
    assert_equal_training(model, lambda model, x, _, place: model(x, place), 3, steps=3)
