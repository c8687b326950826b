"""Messages of one's own: gradients are those of one process, none is lost, and random numbers are replayed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from ranks import run_ranks
from sharded import PARTITIONS, TOLERANCE, features, owners
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph

CLOSE = {"rtol": TOLERANCE, "atol": TOLERANCE}
NUM_EDGES = graph().num_edges


def layer() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 4)).double()


def whole(reduce: str, module: nn.Module) -> tuple[Tensor, dict[str, Tensor]]:
    """Output and gradients of one process, from messages of all edges in the order of the CSC."""
    given = {
        "x": features(NUM_NODES, 3).clone().requires_grad_(),
        "destination": features(NUM_NODES, 2, seed=4).clone().requires_grad_(),
        "edge": features(NUM_EDGES, 2, seed=5).clone().requires_grad_(),
    }
    edges = graph()
    rows = torch.arange(NUM_NODES).repeat_interleave(edges.in_degrees())
    messages = module(
        torch.cat(
            [given["x"][edges.indices.long()], given["destination"][rows], given["edge"][edges.edge_ids.long()]], 1
        )
    )
    # Each message is a source of its own.
    out = hr.Block(edges.indptr, torch.arange(NUM_EDGES), NUM_EDGES, NUM_NODES, bipartite=True).aggregate(
        messages, reduce=reduce
    )
    (out * features(NUM_NODES, 4, seed=6)).sum().backward()
    gradients = {name: value.grad for name, value in given.items()}
    return out.detach(), {**gradients, **{name: one.grad for name, one in module.named_parameters()}}


def check(reduce: str, world_size: int, kind: str, **options: object) -> None:
    initial = layer()
    expected, gradients = whole(reduce, copy.deepcopy(initial))

    def work(comm: hr.Comm) -> tuple[hr.sar.ShardedGraph, Tensor, dict[str, Tensor]]:
        place = hr.sar.ShardedGraph(graph(), owners(kind, world_size), comm, **options)
        module = copy.deepcopy(initial)
        given: dict[str, Any] = {
            "x": place.rows(features(NUM_NODES, 3)).requires_grad_(),
            "destination": place.rows(features(NUM_NODES, 2, seed=4)).requires_grad_(),
            "edge": place.edge_rows(features(NUM_EDGES, 2, seed=5)).requires_grad_(),
        }
        out = place.update_all(lambda *rows: module(torch.cat(rows, 1)), reduce=reduce, **given)
        (out * place.rows(features(NUM_NODES, 4, seed=6))).sum().backward()
        hr.sum_gradients(module, comm)
        found = {name: value.grad for name, value in given.items()}
        return place, out.detach(), {**found, **{name: one.grad for name, one in module.named_parameters()}}

    for place, out, found in run_ranks(world_size, work):
        torch.testing.assert_close(out, expected[place.owned], **CLOSE)
        for name, value in gradients.items():
            ids = {"x": place.owned, "destination": place.owned, "edge": place.edge_ids}.get(name, slice(None))
            torch.testing.assert_close(found[name], value[ids], **CLOSE)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("world_size", [1, 3])
def test_gradients_are_those_of_one_process(reduce, world_size):
    check(reduce, world_size, "table")


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "prefetch"), [("sar", 0), ("sar", 1), ("sequential", 0), ("one-shot", 0)])
@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("reduce", ["sum", "max"])
def test_gradients_are_those_of_one_process_everywhere(reduce, kind, mode, prefetch):
    check(reduce, 4, kind, mode=mode, prefetch=prefetch)


def test_dropout_is_replayed():
    """The sum is linear in its rows, given the masks: with the same ones back, <A x, v> is <x, A' v>."""

    def work(comm: hr.Comm) -> tuple[Tensor, Tensor]:
        place = hr.sar.ShardedGraph(graph(), owners("hash", comm.world_size), comm)
        x = place.rows(features(NUM_NODES, 3)).requires_grad_()
        dropped = place.update_all(lambda rows, *_: nn.functional.dropout(rows, 0.5), x)
        forward = (dropped * place.rows(features(NUM_NODES, 3, seed=7))).sum()
        forward.backward()
        torch.rand(3)  # what others draw meanwhile changes nothing
        return forward.detach(), (x.detach() * x.grad).sum()

    for world_size in (1, 3):
        sides = run_ranks(world_size, work)
        torch.testing.assert_close(sum(left for left, _ in sides), sum(right for _, right in sides), **CLOSE)


def test_the_extra_call_draws_nothing():
    place = hr.sar.ShardedGraph(graph())
    x = torch.ones(NUM_NODES, 2, requires_grad=True)
    drawn = []
    for gradients in (True, False):
        torch.manual_seed(1)
        with torch.set_grad_enabled(gradients):
            drawn.append(place.update_all(lambda rows, *_: nn.functional.dropout(rows, 0.5), x).detach())
    assert torch.equal(*drawn)


class Doubled(torch.autograd.Function):
    """A function with a node of its own."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def test_no_gradient_is_lost():
    place = hr.sar.ShardedGraph(graph())
    x, vector = torch.ones(NUM_NODES, 3, requires_grad=True), torch.ones(3, requires_grad=True)
    place.update_all(lambda rows, *_: Doubled.apply(rows) * vector, x).sum().backward()
    assert vector.grad.tolist() == [2.0 * NUM_EDGES] * 3
    # What was computed outside is refused,
    with pytest.raises(hr.InputError, match=r"uses a tensor that was computed outside of it, by MulBackward0"):
        computed = vector * 2
        place.update_all(lambda rows, *_: rows * computed, x)
    # also if it is what the message is made of alone, unless it is named: then its gradient goes on from there.
    vector.grad, computed = None, vector * 2
    place.update_all(lambda rows, *_: rows * computed, x, parameters=[computed]).sum().backward()
    assert vector.grad.tolist() == [2.0 * NUM_EDGES] * 3
    constant = torch.ones(1, 3, requires_grad=True)
    place.update_all(lambda rows, *_: constant.expand(len(rows), -1), x).sum().backward()
    assert constant.grad.sum() == 3 * NUM_EDGES


def test_a_parameter_that_is_named_twice_counts_once():
    """As weights that several modules share are."""
    place = hr.sar.ShardedGraph(graph())
    x, vector = torch.ones(NUM_NODES, 3, requires_grad=True), torch.ones(3, requires_grad=True)
    place.update_all(lambda rows, *_: rows * vector, x, parameters=[vector, vector]).sum().backward()
    assert vector.grad.tolist() == [float(NUM_EDGES)] * 3
    vector.grad, computed = None, vector * 2
    place.update_all(lambda rows, *_: rows * computed, x, parameters=[computed, computed]).sum().backward()
    assert vector.grad.tolist() == [2.0 * NUM_EDGES] * 3


@pytest.mark.parametrize(
    "compute",
    [lambda vector: vector.view(1, 3), lambda vector: vector / vector.norm(), lambda vector: (vector * 2).exp() + 1],
    ids=["view", "saved", "deeper"],
)
def test_parameters_that_were_computed_from_another_are_refused(compute):
    """Their part of its gradient would come by both ways; computed in the message it comes once."""
    place = hr.sar.ShardedGraph(graph())
    x, vector = torch.ones(NUM_NODES, 3), torch.ones(3, requires_grad=True)
    computed = compute(vector)
    calls = []

    def message(rows: Tensor, *_: object) -> Tensor:
        calls.append(len(rows))
        return rows * vector + computed

    words = "expected parameters that do not depend on each other, got one that was computed, by .*Backward0"
    for named in ([computed], [vector, computed], [computed, vector]):
        with pytest.raises(hr.InputError, match=words):
            place.update_all(message, x, parameters=named)
    assert set(calls) == {1}  # before any work
    with pytest.raises(hr.InputError, match=words):
        place.update_all(lambda rows, *_: rows * computed, x, parameters=[computed, computed * 2])
    place.update_all(lambda rows, *_: rows * vector + compute(vector), x).sum().backward()
    expected = vector.detach().clone().requires_grad_()
    ((expected + compute(expected)).sum() * NUM_EDGES).backward()
    torch.testing.assert_close(vector.grad, expected.grad)
    # What was computed side by side is no part of each other.
    vector.grad, both = None, vector.view(1, 3).unbind(1)
    place.update_all(lambda rows, *_: rows * both[0] * both[1], x, parameters=both).sum().backward()
    assert vector.grad.tolist() == [3.0 * NUM_EDGES] * 2 + [0]


def test_a_parameter_that_only_some_calls_use_must_be_named():
    place = hr.sar.ShardedGraph(graph())
    x, vector = torch.ones(NUM_NODES, 3, requires_grad=True), torch.ones(3, requires_grad=True)

    def message(rows: Tensor, *_: object) -> Tensor:
        return rows * vector if len(rows) > 1 else rows

    out = place.update_all(message, x)
    with pytest.raises(hr.InputError, match="used a parameter that its first call had not"):
        out.sum().backward()
    place.update_all(message, x, parameters=[vector]).sum().backward()
    assert vector.grad.tolist() == [float(NUM_EDGES)] * 3


def test_messages_of_whole_numbers_and_of_one_number():
    """Ids of sources travel as rows do; messages may be single numbers."""
    sources, destinations = graph().indices.long(), torch.arange(NUM_NODES).repeat_interleave(graph().in_degrees())

    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 3), comm)
        table = torch.arange(NUM_NODES, dtype=torch.float64, requires_grad=True)
        out = place.update_all(lambda ids, *_: table[ids], place.owned)
        expected = torch.zeros_like(table).index_add(0, destinations, table.detach()[sources])
        torch.testing.assert_close(out, expected[place.owned], **CLOSE)
        out.sum().backward()
        own = torch.isin(sources, place.owned) & torch.isin(destinations, place.owned)
        assert (table.grad >= torch.bincount(sources[own], minlength=NUM_NODES)).all()
        assert table.grad.sum() == place.num_edges

    run_ranks(3, work)
