"""What is refused of several ranks: groups, channels, gradients and plans."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from ranks import partition
from torch import nn

import headrace as hr
from headrace.testing import LocalGroup

from plans import graph, items, pairs, store


def used_up() -> object:
    parameters = nn.Linear(2, 2).parameters()
    list(parameters)
    return parameters


def group(*arguments: object) -> Callable[[], object]:
    return lambda: LocalGroup(*arguments)


def trees_over(shard: object) -> hr.Plan:
    seeds = pairs().exclude_seed_edges(per="seed")
    return seeds.sample_neighbor(shard, [3, 2], disjoint=True).induce_subgraph(shard)


def together(plan: hr.Plan) -> Callable[[], object]:
    return lambda: plan.loader(cooperative=True, comm=LocalGroup(2).comms[0])


SECONDS = "timeout, in seconds, to be a number above 0"
SAMPLED = items().sample_neighbor(graph(), [3])

REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "group of none": (
        group(0),
        hr.InputError,
        "LocalGroup: expected world_size to be an integer from 1 to 65536, got 0",
    ),
    "group of less": (group(-2), hr.InputError, "world_size to be an integer"),
    "group of a float": (group(2.0), hr.InputError, "world_size to be an integer"),
    "group of a text": (group("2"), hr.InputError, "world_size to be an integer"),
    "group of a boolean": (group(True), hr.InputError, "world_size to be an integer"),
    "no seconds": (group(2, 0), hr.InputError, f"LocalGroup: expected {SECONDS}, got 0"),
    "negative seconds": (group(2, -1.0), hr.InputError, SECONDS),
    "NaN seconds": (group(2, math.nan), hr.InputError, f"{SECONDS}, got nan"),
    "infinite seconds": (group(2, math.inf), hr.InputError, f"{SECONDS}, got inf"),
    "seconds of nothing": (group(2, None), hr.InputError, f"{SECONDS}, got None"),
    "seconds in a text": (group(2, "60"), hr.InputError, SECONDS),
    "bidirectional": (together(SAMPLED.make_bidirectional()), hr.PlanError, "make_bidirectional"),
    "features before a subgraph": (
        together(SAMPLED.fetch_feature(store(), node=["x"]).induce_subgraph(graph())),
        hr.PlanError,
        "expected fetch_feature behind it, where",
    ),
    "the whole frontier": (
        together(items().sample_layer_neighbor(graph(), [3], importance=1, expand="new").induce_subgraph(graph())),
        hr.PlanError,
        "depends on the whole frontier",
    ),
    "trees without their seeds over a graph in shards": (
        lambda: trees_over(graph().shard(partition("hash", 2), 0)).loader(comm=LocalGroup(2).comms[0]),
        hr.PlanError,
        r'expected exclude_seed_edges\(per="batch"\) over a graph in shards',
    ),
    "shares of a subgraph": (
        lambda: SAMPLED.induce_subgraph(graph()).loader(rank=0, world_size=2),
        hr.PlanError,
        r"cannot be cut into shares; let ranks .*cooperative=True.*disjoint=True",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (used_up, "expected parameters, got none; a generator"),
        (list, "expected parameters, got none"),
        (lambda: nn.Linear(2, 2).weight, "expected a module or its parameters, got Parameter"),
        (lambda: 3, "expected a module or its parameters, got int"),
        (lambda: None, "expected a module or its parameters, got NoneType"),
        (lambda: nn.Linear(2, 2).named_parameters(), "expected parameters, got tuple among them"),
        (lambda: nn.Linear(2, 2).state_dict(), "expected parameters, got str among them"),
        (lambda: [nn.Linear(2, 2)], "expected parameters, got Linear among them"),
        (lambda: [nn.Linear(2, 2).weight * 2], "got a tensor that was computed from others among them"),
    ],
)
@pytest.mark.parametrize("size", [1, 2])
def test_gradients_are_those_of_parameters(make, words, size):
    with pytest.raises(hr.InputError, match=f"sum_gradients: .*{words}|sum_gradients: {words}"):
        hr.sum_gradients(make(), LocalGroup(size).comms[0])


@pytest.mark.parametrize("comm", [LocalGroup(2), 2, "gloo"])
def test_channels_are_channels(comm):
    words = f"expected a channel as comm, got {type(comm).__name__}; .*LocalGroup"
    with pytest.raises(hr.InputError, match="sum_gradients: " + words):
        hr.sum_gradients(nn.Linear(2, 2), comm)
    with pytest.raises(hr.InputError, match="loader: " + words):
        items().loader(comm=comm)
    with pytest.raises(hr.InputError, match="ShardedGraph: " + words):
        hr.sar.ShardedGraph(graph(), hr.Partition.hash(200, 2), comm)


@pytest.mark.parametrize("size", [1, 2])
def test_sparse_gradients(size):
    table = nn.Embedding(4, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(hr.InputError, match="expected dense gradients, got sparse ones"):
        hr.sum_gradients(table, LocalGroup(size).comms[0])
