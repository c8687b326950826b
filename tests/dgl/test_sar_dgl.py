"""DGL's own layers over shards: outputs, losses and gradients are those of DGL on the whole graph."""

from __future__ import annotations

from typing import Any

import dgl
import pytest
import torch
from dgl.nn import DenseGraphConv, GATConv, GraphConv, HeteroGraphConv, RelGraphConv, SAGEConv
from sharded import NUM_CLASSES, NUM_TYPES, WIDTH, assert_equal_training, edge_index, edge_types, features
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph

FREE = {"allow_zero_in_degree": True}


class Network(nn.Module):
    """Two layers, called as DGL's users do."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.first, self.second = make(WIDTH, 8), make(8, NUM_CLASSES)

    def forward(self, place: Any, x: Tensor, **of_edges: Tensor) -> Tensor:
        h = torch.tanh(self.first(place, x, **of_edges))
        h = self.second(place, h.mean(1) if h.dim() == 3 else h, **of_edges)
        return h.mean(1) if h.dim() == 3 else h


def weights() -> Tensor:
    return features(graph().num_edges, seed=5).abs() + 0.1


#: A layer, what it takes of edges, and under which name.
CASES: dict[str, tuple[Any, Any, str]] = {
    "sage_mean": (lambda a, b: SAGEConv(a, b, "mean", activation=torch.tanh), None, ""),
    "sage_weights": (lambda a, b: SAGEConv(a, b, "mean"), weights, "edge_weight"),
    "sage_gcn": (lambda a, b: SAGEConv(a, b, "gcn"), None, ""),
    "sage_pool": (lambda a, b: SAGEConv(a, b, "pool", norm=nn.functional.normalize), None, ""),
    "graph_both": (lambda a, b: GraphConv(a, b, **FREE), None, ""),
    "graph_right": (lambda a, b: GraphConv(a, b, norm="right", bias=False, **FREE), weights, "edge_weight"),
    "graph_left": (lambda a, b: GraphConv(a, b, norm="left", activation=torch.tanh, **FREE), None, ""),
    "graph_none": (lambda a, b: GraphConv(a, b, norm="none", **FREE), None, ""),
    "gat": (lambda a, b: GATConv(a, b, 2, residual=True, **FREE), None, ""),
    "gat_plain": (lambda a, b: GATConv(a, b, 2, negative_slope=0.3, bias=False, **FREE), None, ""),
    "rel": (lambda a, b: RelGraphConv(a, b, NUM_TYPES, layer_norm=True), edge_types, "etypes"),
    "rel_basis": (lambda a, b: RelGraphConv(a, b, NUM_TYPES, "basis", 2, self_loop=False), edge_types, "etypes"),
    "rel_blocks": (lambda a, b: RelGraphConv(a, b, NUM_TYPES, "bdd", 1), edge_types, "etypes"),
}


@pytest.mark.parametrize("world_size", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_ranks_compute_what_dgl_does(case, world_size):
    make, of_edges, name = CASES[case]

    def run(model: nn.Module, x: Tensor, edge: Tensor | None, place: Any) -> Tensor:
        return model(place, x, **({} if edge is None else {name: edge}))

    torch.manual_seed(1)
    edge = None if of_edges is None else of_edges()
    alone = dgl.graph(tuple(edge_index()), num_nodes=NUM_NODES)
    assert_equal_training(Network(make).double(), run, world_size, edge=edge, alone=alone, kind="table", steps=2)


def test_dropout_does_not_depend_on_the_ranks():
    torch.manual_seed(2)
    model = Network(lambda a, b: GATConv(a, b, 2, feat_drop=0.3, attn_drop=0.4, **FREE)).double()
    assert_equal_training(model, lambda own, x, _, place: own(place, x), 3, kind="hash", steps=2)


def test_what_cannot_be_computed_is_refused():
    place = hr.sar.ShardedGraph(graph())
    for layer, words in [
        (SAGEConv(2, 2, "lstm"), "aggregator_type='lstm'"),
        (DenseGraphConv(2, 2), "DenseGraphConv cannot be computed over shards"),
        (HeteroGraphConv({"e": GraphConv(2, 2)}), "HeteroGraphConv cannot be computed over shards"),
    ]:
        with pytest.raises(hr.InputError, match=words):
            hr.sar.wrap(nn.Sequential(layer), place)
    x = features(NUM_NODES, WIDTH).float()
    conv = hr.sar.wrap(GraphConv(WIDTH, 2), place)
    with pytest.raises(hr.InputError, match="there are nodes without in-edges"):
        conv(place, x)
    with pytest.raises(hr.InputError, match=r"expected an hr\.sar\.ShardedGraph, got 0"):
        conv(edge_index(), x)
