"""Every class of PyG that passes messages, over shards: what PyG computes on the whole graph, or a refusal."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from pyg_classes import EQUAL, REFUSED, assert_as_whole, outcome, pyg
from ranks import run_ranks
from sharded import edge_index, owners
from torch import Tensor, nn

import headrace as hr

from plans import graph

MessagePassing = pyg.MessagePassing

#: Those that take something else than one graph, or nothing that PyG alone can compute.
ELSEWHERE = {
    "CuGraphGATConv", "CuGraphRGCNConv", "CuGraphSAGEConv", "CuGraphModule", "FusedGATConv", "SplineConv", "PANConv",
    "DynamicEdgeConv", "GravNetConv", "HANConv", "HGTConv", "HypergraphConv", "SignedConv", "MessagePassing",
}  # fmt: skip


def on_ranks(make: Callable[[], nn.Module], takes: str, world_size: int) -> list[tuple[Any, dict[str, Any]]]:
    torch.manual_seed(0)
    layer = make().double()

    def work(comm: hr.Comm) -> tuple[Any, dict[str, Any]]:
        place = hr.sar.ShardedGraph(graph(), owners("hash", world_size), comm)
        wrapped = hr.sar.wrap(copy.deepcopy(layer), place)
        return place, outcome(wrapped, takes, place, place.rows, place.edge_rows, comm)

    return run_ranks(world_size, work)


@pytest.mark.slow
@pytest.mark.parametrize("name", EQUAL)
def test_rows_and_gradients_are_those_of_pyg(name):
    make, takes = EQUAL[name]
    torch.manual_seed(0)
    expected = outcome(make().double(), takes, edge_index(), Tensor.clone, Tensor.clone)
    for place, values in on_ranks(make, takes, 2):
        assert_as_whole(values, expected, place.owned, place.edge_ids)


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused(name):
    make, takes, reason = REFUSED[name]
    with pytest.raises(hr.HeadraceError, match=reason) as caught:
        on_ranks(make, takes, 2)
    assert isinstance(caught.value, hr.InputError), caught.value


def test_there_is_no_further_class():
    classes = {
        one.__name__ for one in vars(pyg.conv).values() if isinstance(one, type) and issubclass(one, MessagePassing)
    }
    assert classes - {*EQUAL, *REFUSED} <= ELSEWHERE
