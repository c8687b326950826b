"""How many nodes and edges a rank has: layers for DGL's graphs make tensors of that size, and compute with none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from ranks import run_ranks
from sharded import WIDTH, features, owners
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph


def asks(question: Callable[[Any, Tensor], Any]) -> nn.Module:
    """A layer that asks its graph."""

    class Asking(nn.Module):
        def forward(self, g: Any, x: Tensor) -> Any:
            with g.local_scope():
                g.ndata["h"] = x
                g.apply_edges(lambda edges: {"e": edges.src["h"] - edges.dst["h"]})
                return question(g, x)

    return Asking()


def batch_size(g: Any, x: Tensor) -> Tensor:
    g.apply_edges(lambda edges: {"m": edges.src["h"] / edges.batch_size()})
    return x


#: How a layer computes with a number of nodes or edges of one rank, and with which.
COMPUTED: dict[str, tuple[Callable[[Any, Tensor], Any], str]] = {
    "by edges": (lambda g, x: x / g.num_edges(), "edges of one rank, in "),
    "by nodes": (lambda g, x: x * g.num_nodes(), "nodes of one rank, in "),
    "by destinations": (lambda g, x: torch.div(x, g.number_of_dst_nodes()), "nodes or edges of one rank "),
    "from the left": (lambda g, x: g.number_of_nodes() * x, "nodes of one rank, in __mul__ "),
    "a fraction": (lambda g, x: x * (0.5 * g.number_of_edges()), "edges of one rank, in __rmul__ "),
    "a quotient": (lambda g, x: x * (g.num_edges() / g.num_nodes()), "edges of one rank, in __truediv__ "),
    "more": (lambda g, x: x / (1 + 2 * g.num_edges()), "edges of one rank, in "),
    "a root": (lambda g, x: x / math.sqrt(g.num_nodes()), "nodes of one rank, in __float__ "),
    "a whole number": (lambda g, x: x / int(g.num_nodes()), "nodes of one rank, in __int__ "),
    "an exponent": (lambda g, x: x / g.num_nodes() ** 0.5, "nodes of one rank, in __pow__ "),
    "of values of edges": (lambda g, x: g.edata["e"] / g.num_edges(), "edges of one rank, in "),
    "of messages": (batch_size, "edges of one rank, in "),
    "a tensor": (lambda g, x: x / torch.tensor(g.num_nodes()), "nodes or edges of one rank "),
    "filled in": (lambda g, x: x + torch.full((1, 1), g.num_nodes()), "nodes or edges of one rank "),
    "positions": (lambda g, x: x + torch.arange(g.num_nodes())[:, None], "nodes or edges of one rank "),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_numbers_of_one_rank_are_sizes_alone(name):
    compute, words = COMPUTED[name]

    def rank(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 2), comm)
        hr.sar.wrap(asks(compute), place)(place, place.rows(features(NUM_NODES, WIDTH)))

    with pytest.raises(
        hr.InputError,
        match=rf"Asking: the layer computes with (the|a) number of {words}.*\(test_sizes_of_ranks\.py:\d+: ",
    ):
        run_ranks(2, rank)


def sized(g: Any, x: Tensor) -> Tensor:
    nodes, edges = g.num_nodes(), g.num_edges()
    assert f"{nodes:d} {edges}" == f"{len(x)} {len(g.edata['e'])}"
    assert edges > 0 == nodes - nodes
    g.edata["w"] = torch.ones(edges, 1, dtype=x.dtype) + g.edata["e"].view(edges, WIDTH)
    out = torch.zeros(nodes, 3, dtype=x.dtype) + x.new_full((nodes, 1), 0.5)
    return out + x.view(nodes, -1, 2).sum(2)[:nodes].reshape((nodes, 3)) * (len(range(2 * nodes)) // len(x))


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_tensors_have_these_sizes(world_size):
    def rank(comm: hr.Comm) -> bool:
        place = hr.sar.ShardedGraph(graph(), owners("hash", world_size), comm)
        x = place.rows(features(NUM_NODES, WIDTH))
        expected = 0.5 + 2 * x.view(-1, 3, 2).sum(2)
        return torch.allclose(hr.sar.wrap(asks(sized), place)(place, x), expected)

    assert run_ranks(world_size, rank) == [True] * world_size


def test_one_process_has_all_nodes_and_edges():
    place = hr.sar.ShardedGraph(graph())
    x = place.rows(features(NUM_NODES, WIDTH))
    model = hr.sar.wrap(asks(lambda g, x: x * (g.num_edges() / g.num_nodes())), place)
    torch.testing.assert_close(model(place, x), x * (graph().num_edges / NUM_NODES))
    looped = place.with_self_loops()  # which has entries of loops that are replaced
    with pytest.raises(hr.InputError, match="computes with the number of edges of one rank, in __truediv__"):
        model(looped, x)
