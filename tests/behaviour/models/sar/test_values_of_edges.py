"""Layers of a user's own that compute values of edges on a graph as DGL's, without a function of DGL."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
from ranks import run_ranks
from sharded import NUM_CLASSES, WIDTH, assert_equal_training, edge_index, features, owners
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph


class Gates(nn.Module):
    """Values of edges of both ends, which another layer gets as a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(WIDTH, 3)

    def forward(self, g: Any) -> Tensor:
        g.ndata["gate"] = self.lin(g.ndata["h"])
        g.apply_edges(lambda edges: {"gate": edges.src["gate"] - 2 * edges.dst["gate"]})
        return g.edata["gate"].sigmoid()


class Scores(nn.Module):
    """Operations on values of edges, with parameters and with tensors of all edges."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.lin, self.of_gates = Gates(), nn.Linear(WIDTH, NUM_CLASSES), nn.Linear(6, NUM_CLASSES)
        self.shift = nn.Parameter(torch.linspace(0, 1, NUM_CLASSES))

    def message(self, edges: Any) -> dict[str, Tensor]:
        return {"m": self.lin(edges.src["h"]) * edges.dst["h"][..., :1] + edges.data["w"]}

    def forward(self, g: Any, x: Tensor, edge: Tensor) -> Tensor:
        with g.local_scope():
            g.ndata["h"] = x
            with g.local_scope():
                gates = self.gates(g)
            assert "gate" not in g.ndata
            g.edata["w"] = edge
            g.apply_edges(self.message)
            values = g.edata["m"] + self.of_gates(torch.cat([gates, gates * edge], -1)) + self.shift
            first, rest = (2 * values.tanh() - edge.exp()).split([1, NUM_CLASSES - 1], -1)
            values = torch.cat([rest.view(g.num_edges(), NUM_CLASSES - 1), first / (1 + first**2)], 1)
            degrees = g.in_degrees().to(x.dtype).clamp(min=1).view(-1, 1)
            g.ndata["d"] = x.new_ones(len(x), 1) / degrees
            g.apply_edges(lambda edges: {"d": edges.dst["d"]})
            assert values.shape == (g.num_edges(), NUM_CLASSES)
            return values * g.edata["d"]


class Sums(nn.Module):
    """The sums over destinations, whose edges are all on their rank."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = Scores()

    def forward(self, place: hr.sar.ShardedGraph, x: Tensor, edge: Tensor) -> Tensor:
        return place.sum_edges(self.scores(place, x, edge))


def weights() -> Tensor:
    return features(graph().num_edges, 1, seed=5).abs() + 0.1


def expected_scores(layer: Scores, x: Tensor, edge: Tensor) -> Tensor:
    """The same on the whole graph, edges in the order of their ids."""
    src, dst = edge_index()
    gate = layer.gates.lin(x)
    gates = (gate[src] - 2 * gate[dst]).sigmoid()
    messages = layer.lin(x[src]) * x[dst][:, :1] + edge
    values = messages + layer.of_gates(torch.cat([gates, gates * edge], 1)) + layer.shift
    values = 2 * values.tanh() - edge.exp()
    first, rest = values[:, :1], values[:, 1:]
    degrees = torch.bincount(dst, minlength=NUM_NODES).clamp(min=1)
    return torch.cat([rest, first / (1 + first**2)], 1) / degrees[dst][:, None]


def test_values_of_edges_are_those_of_torch():
    layer, x, edge = Scores().double(), features(NUM_NODES, WIDTH), weights()
    expected = expected_scores(layer, x, edge)
    place = hr.sar.ShardedGraph(graph())
    out = hr.sar.wrap(layer, place)(place, place.rows(x), place.edge_rows(edge))
    torch.testing.assert_close(out, expected[place.edge_ids])


@pytest.mark.parametrize("kind", ["hash", "table", "first"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_compute_what_one_does(world_size, kind):
    torch.manual_seed(1)
    model = Sums().double()
    assert_equal_training(
        model, lambda own, x, edge, place: own(place, x, edge), world_size, edge=weights(), kind=kind, steps=2
    )


def doubled(g: Any, x: Tensor) -> Tensor:
    g.ndata["h"] = 2 * x
    return g.ndata["h"]


class ByFunction(nn.Module):
    """Asks its graph in a function that is no method, behind a decorator."""

    @torch.no_grad()
    def forward(self, g: Any, x: Tensor) -> Tensor:
        return self.of(g, x)

    @staticmethod
    def of(g: Any, x: Tensor) -> Tensor:
        return doubled(g, x)


def test_functions_that_a_layer_calls_are_seen():
    place, x = hr.sar.ShardedGraph(graph()), features(NUM_NODES, WIDTH)
    torch.testing.assert_close(hr.sar.wrap(nn.Sequential(ByFunction())[0], place)(place, x), 2 * x)


class Dropping(nn.Module):
    """Two masks, each of which is the same wherever its values are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, g: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        g.ndata["h"] = x
        g.apply_edges(lambda edges: {"m": self.drop(edges.src["h"] + edges.dst["h"])})
        dropped = self.drop(g.edata["m"] + 1)
        return g.edata["m"], dropped, dropped / 1


def test_masks_belong_to_an_operation_and_to_edges():
    place = hr.sar.ShardedGraph(graph())
    model, x = hr.sar.wrap(Dropping(), place), features(NUM_NODES, WIDTH)
    message, dropped, again = model(place, x)
    assert torch.equal(dropped, again)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], 2 * (message + 1)[kept])
    assert ((model(place, x)[0] == 0) != (message == 0)).any()
    assert ((dropped == 0) != (message == 0)).any()
    assert 0.4 < (dropped == 0).double().mean() < 0.6


def test_rows_are_released_with_the_output():
    """Without the garbage collector, which cannot see what autograd holds."""
    whole = Scores().double()

    def work(comm: hr.Comm) -> bool:
        place, layer = hr.sar.ShardedGraph(graph(), owners("hash", 2), comm), copy.deepcopy(whole)
        known: list[weakref.ref[Tensor]] = []
        layer.gates.lin.register_forward_hook(lambda _, __, out: known.append(weakref.ref(out)))
        model = hr.sar.wrap(layer, place)
        model(place, place.rows(features(NUM_NODES, WIDTH)), place.edge_rows(weights())).sum().backward()
        return bool(known) and all(ref() is None for ref in known)

    gc.disable()
    try:
        assert run_ranks(2, work) == [True, True]
    finally:
        gc.enable()


class Asking(nn.Module):
    def __init__(self, question: Any) -> None:
        super().__init__()
        self.question = question

    def forward(self, g: Any, x: Tensor) -> Any:
        g.ndata["h"] = x
        return self.question(g)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (lambda g: g.edges(), "Asking: the layer asks its graph for edges"),
        (lambda g: g.apply_edges(lambda edges: {"m": edges.src["h"].sum(0)}), "looks at several edges at once, in sum"),
        (lambda g: g.ndata["n"], "reads 'n' of nodes, of which the graph has h"),
        (lambda g: g.update_all(len, max), "reduces messages by max"),
    ],
)
def test_what_cannot_be_answered_is_refused(question, words):
    place = hr.sar.ShardedGraph(graph())
    with pytest.raises(hr.InputError, match=words):
        hr.sar.wrap(Asking(question), place)(place, features(NUM_NODES, WIDTH))


class Late(nn.Module):
    """Values of edges that `change` comes between, on their way to a sum over destinations."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change, self.scale = change, 1.0

    def forward(self, g: Any, x: Tensor) -> Any:
        g.ndata["h"] = x * 2
        g.apply_edges(lambda edges: {"m": edges.src["h"] * self.scale})
        self.change(self, g)
        return g.edata["m"]


def scale_later(layer: Late, _: Any) -> None:
    layer.scale = 3.0


def assign(_: Late, g: Any) -> None:
    values = g.edata["m"]
    values *= 2


def draw(_: Late, g: Any) -> None:
    g.edata["m"] = g.edata["m"] * torch.rand_like(g.edata["m"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (scale_later, "returns something else now than when apply_edges called it"),
        (lambda _, g: g.ndata["h"].mul_(2), "writes to rows in place behind what it has computed"),
        (assign, "writes to values of edges in place, by an operator"),
        (draw, "draws numbers for values of edges, in rand_like"),
    ],
)
def test_what_changes_before_it_is_reduced_is_refused(change, words):
    """DGL has computed the values by then."""
    place = hr.sar.ShardedGraph(graph())
    with pytest.raises(hr.InputError, match=f"Late: the layer .*{words}"):
        hr.sar.wrap(Late(change), place)(place, place.rows(features(NUM_NODES, WIDTH)))


class PartlyWithout(nn.Module):
    """Values that are twice those of the rows, of which one half has no gradients."""

    def forward(self, g: Any, x: Tensor) -> Any:
        g.ndata["h"] = x
        g.apply_edges(lambda edges: {"m": edges.src["h"]})
        with torch.no_grad():
            g.apply_edges(lambda edges: {"constant": edges.src["h"] * 1})
            half = g.edata["m"] * 1
        return g.edata["m"] + g.edata["constant"] + half


def test_values_without_gradients_have_none():
    place = hr.sar.ShardedGraph(graph())
    x = place.rows(features(NUM_NODES, WIDTH)).requires_grad_()
    hr.sar.wrap(PartlyWithout(), place)(place, x).sum().backward()
    torch.testing.assert_close(x.grad, place.out_degrees().to(x.dtype).view(-1, 1).expand_as(x).contiguous())


class Named(nn.Module):
    """A module that has a name of a DGLGraph, but takes none."""

    def forward(self, x: Tensor) -> Tensor:
        self.edges = x.new_zeros(1)
        return x + self.edges


def test_a_module_that_takes_no_graph_stays_what_it_is():
    place = hr.sar.ShardedGraph(graph())
    x = place.rows(features(NUM_NODES, WIDTH))
    assert torch.equal(hr.sar.wrap(nn.Sequential(Named()), place)(x), x)
