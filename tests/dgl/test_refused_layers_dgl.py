"""Layers of DGL, and questions of layers, that a graph in shards refuses by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import dgl
import dgl.nn as layers
import pytest
import torch
from dgl import function as fn
from dgl.nn.functional import edge_softmax
from ranks import run_ranks
from sharded import NUM_CLASSES, WIDTH, features, owners
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph

FREE = {"allow_zero_in_degree": True}

#: Layers, how they are called, and a part of the message.
REFUSED: dict[str, tuple[Callable[[], nn.Module], Callable[..., Any], str]] = {
    "pna": (
        lambda: layers.PNAConv(WIDTH, NUM_CLASSES, ["mean"], ["identity"], 2.5),
        lambda own, g, x: own(g, x),
        "PNAConvTower: the layer asks its graph for batch_num_nodes",
    ),
    "sage_lstm": (
        lambda: layers.SAGEConv(WIDTH, NUM_CLASSES, "lstm"),
        lambda own, g, x: own(g, x),
        "SAGEConv with aggregator_type='lstm'",
    ),
    "cheb": (
        lambda: layers.ChebConv(WIDTH, NUM_CLASSES, 2),
        lambda own, g, x: own(g, x, [2.0]),
        "ChebConv: the layer asks its graph for",
    ),
    "sg_weights": (
        lambda: layers.SGConv(WIDTH, NUM_CLASSES, **FREE),
        lambda own, g, x: own(g, x, edge_weight=features(g.num_edges).abs() + 0.1),
        "SGConv: the layer asks its graph for",
    ),
    "dgn": (
        lambda: layers.DGNConv(WIDTH, NUM_CLASSES, ["dir1-av"], ["identity"], 2.5),
        lambda own, g, x: own(g, x, eig_vec=x),
        "DGNConvTower: the layer asks its graph for",
    ),
    "edge_norm": (
        lambda: layers.EdgeConv(WIDTH, NUM_CLASSES, batch_norm=True, **FREE),
        lambda own, g, x: own(g, x),
        "looks at several edges at once, in batch_norm",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_layers_are_refused(case):
    make, call, words = REFUSED[case]
    place = hr.sar.ShardedGraph(graph())
    layer = make().double()
    with pytest.raises(hr.InputError, match=words):
        call(hr.sar.wrap(layer, place), place, place.rows(features(NUM_NODES, WIDTH)))


def asks(question: Callable[[Any, Tensor], Any]) -> nn.Module:
    """A layer that asks its graph."""

    class Asking(nn.Module):
        def forward(self, g: Any, x: Tensor) -> Any:
            with g.local_scope():
                g.ndata["h"] = x
                g.apply_edges(fn.u_sub_v("h", "h", "e"))
                return question(g, x)

    return Asking()


def reduce_mailbox(nodes: Any) -> dict[str, Tensor]:
    return {"o": nodes.mailbox["m"].sum(1)}


#: What a layer asks, and what its refusal says.
QUESTIONS: dict[str, tuple[Callable[[Any, Tensor], Any], str]] = {
    "edges": (lambda g, x: g.edges(), "Asking: the layer asks its graph for edges"),
    "successors": (lambda g, x: g.successors(0), "asks its graph for successors"),
    "some_degrees": (lambda g, x: g.in_degrees(torch.arange(3)), "calls in_degrees for some nodes or edges"),
    "types": (lambda g, x: g.num_nodes("user"), "calls num_nodes for the type 'user'"),
    "reverse": (lambda g, x: dgl.reverse(g), "asks its graph for"),
    "missing": (lambda g, x: g.edata["f"], "reads 'f' of edges, of which the graph has e"),
    "rows": (lambda g, x: g.ndata.update(n=x[:3]), "expected a row for each of 200 nodes of this rank in 'n'"),
    "mailbox": (lambda g, x: g.update_all(fn.copy_u("h", "m"), reduce_mailbox), "reduces messages by reduce_mailbox"),
    "field": (lambda g, x: g.update_all(fn.copy_u("h", "m"), fn.sum("n", "o")), "reduces 'n', but sends m"),
    "norm_by": (lambda g, x: edge_softmax(g, g.edata["e"], norm_by="src"), "norm_by='src'"),
    "sum": (lambda g, x: g.edata["e"].sum(), "looks at several edges at once, in sum"),
    "sort": (lambda g, x: g.edata["e"].sort(0), "looks at several edges at once, in sort"),
    "norm": (lambda g, x: nn.functional.batch_norm(g.edata["e"], None, None, training=True), "in batch_norm"),
    "item": (lambda g, x: g.edata["e"].tolist(), "reads tolist of values of edges"),
    "truth": (lambda g, x: bool(g.edata["e"]), "asks whether values of edges are true"),
    "in_place": (lambda g, x: g.edata["e"].relu_(), "writes to values of edges in place, in relu_"),
    "written": (lambda g, x: g.edata["e"].__setitem__(0, 1), "writes to values of edges in place"),
    "unknown": (lambda g, x: g.edata["e"].no_method(), "reads no_method of values of edges"),
    "einsum": (
        lambda g, x: torch.einsum("ef,eg->efg", g.edata["e"], torch.ones(g.num_edges(), 2)),
        "computes einsum with a tensor of 1500 rows that is not in graph.edata",
    ),
    "message": (lambda g, x: g.apply_edges(lambda edges: {"m": edges.src["h"].cumsum(0)}), "in cumsum"),
    "no_field": (
        lambda g, x: g.apply_edges(lambda edges: {"m": edges.dst["n"]}),
        "reads 'n' of edges.dst, which has h",
    ),
    "ids": (lambda g, x: g.apply_edges(lambda edges: {"m": edges.edges()[0]}), "reads edges of edges"),
    "no_rows": (lambda g, x: g.apply_edges(lambda edges: edges.src["h"]), "returns no dictionary of tensors"),
    "max_and_nodes": (
        lambda g, x: g.update_all(fn.copy_u("h", "m"), fn.max("m", "o"), lambda nodes: {"o": nodes.data["o"]}),
        "calls update_all with max and apply_node_func for nodes without edges",
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_that_a_graph_in_shards_cannot_answer_are_refused(question):
    ask, words = QUESTIONS[question]
    place = hr.sar.ShardedGraph(graph())
    with pytest.raises(hr.InputError, match=words):
        hr.sar.wrap(asks(ask), place)(place, place.rows(features(NUM_NODES, WIDTH)))


@pytest.mark.parametrize(
    "compute",
    [
        lambda g, x: x / g.num_edges(),
        lambda g, x: torch.div(x, g.num_nodes()),
        lambda g, x: x * (0.5 * g.number_of_edges()),
        lambda g, x: g.edata["e"] / g.num_edges(),
    ],
)
def test_numbers_of_one_rank_are_sizes_alone(compute):
    def rank(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 2), comm)
        hr.sar.wrap(asks(compute), place)(place, place.rows(features(NUM_NODES, WIDTH)))

    with pytest.raises(hr.InputError, match=r"Asking: the layer computes with (the|a) number of .* of one rank"):
        run_ranks(2, rank)


def test_sizes_of_one_rank():
    """A layer makes tensors of them, and compares them."""

    def sized(g: Any, x: Tensor) -> Tensor:
        nodes, edges = g.num_nodes(), g.num_edges()
        assert f"{nodes:d} {edges}" == f"{len(x)} {len(g.edata['e'])}"
        assert nodes == len(x)
        assert edges > 0 == nodes - nodes
        out = torch.zeros(nodes, 2, dtype=x.dtype) + x.new_full((nodes, 1), 0.5) + x.view(nodes, 2, -1).sum(2)[:nodes]
        g.edata["w"] = torch.ones(edges, 1, dtype=x.dtype) + g.edata["e"].view(edges, WIDTH)
        g.update_all(fn.copy_e("w", "m"), fn.sum("m", "o"))
        return out.repeat(1, len(range(2 * nodes)) // len(x)) + g.ndata["o"][:, :4]

    def outputs(world_size: int) -> Tensor:
        def rank(comm: hr.Comm) -> Tensor:
            place = hr.sar.ShardedGraph(graph(), owners("hash", world_size), comm)
            out = hr.sar.wrap(asks(sized), place)(place, place.rows(features(NUM_NODES, WIDTH)))
            return torch.zeros(NUM_NODES, 4, dtype=out.dtype).index_copy(0, place.owned, out)

        return sum(run_ranks(world_size, rank))

    torch.testing.assert_close(outputs(2), outputs(1))


def test_dgl_is_as_it_was():
    """Its functions know graphs in shards only while a layer runs over one, also after an error."""
    place = hr.sar.ShardedGraph(graph())
    module = sys.modules["dgl.ops.edge_softmax"]
    before = module.edge_softmax_internal
    model = hr.sar.wrap(layers.GATv2Conv(WIDTH, 2, 1, **FREE).double(), place)
    model(place, place.rows(features(NUM_NODES, WIDTH))).sum().backward()
    with pytest.raises(hr.InputError):
        hr.sar.wrap(asks(lambda g, x: g.edges()), place)(place, place.rows(features(NUM_NODES, WIDTH)))
    assert module.edge_softmax_internal is before
