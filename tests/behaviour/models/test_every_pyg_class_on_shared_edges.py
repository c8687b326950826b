"""Every class of PyG that passes messages, on edges that ranks share: equal to one process, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hybrid import KINDS
from pyg_classes import EQUAL, REFUSED, assert_as_whole, outcome, outcome_of_batch
from ranks import run_ranks
from sharded import edge_index
from torch import Tensor, nn

import headrace as hr

from plans import graph


def on_ranks(make: Callable[[], nn.Module], takes: str, kind: str = "grid") -> list[tuple[Any, dict[str, Any]]]:
    """For each rank its nodes and edges, and the outcome of a layer over the whole graph."""
    torch.manual_seed(0)
    layer = make().double()
    steps = hr.GlobalBatch(graph(), seed=1).sample_in_subgraph(graph())

    def work(comm: hr.Comm) -> tuple[Any, dict[str, Any]]:
        with steps.loader(comm=comm, cooperative=True, partition=KINDS[kind](graph(), 2)) as loader:
            batch = next(iter(loader))
            return (batch.n_id, batch.blocks[0].edge_ids), outcome_of_batch(layer, takes, batch, comm)

    return run_ranks(2, work)


#: Refused by parts elsewhere, because a rank has the edges of a type at hand here.
OF_TYPES = "FiLMConv, of types"


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EQUAL, OF_TYPES])
def test_every_class_is_that_of_one_process(name):
    make, takes = EQUAL[name] if name in EQUAL else REFUSED[name][:2]
    torch.manual_seed(0)
    expected = outcome(make().double(), takes, edge_index(), Tensor.clone, Tensor.clone)
    for (nodes, edge_ids), values in on_ranks(make, takes):
        assert_as_whole(values, expected, nodes, edge_ids)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REFUSED if name != OF_TYPES])
def test_other_classes_are_refused(name):
    make, takes, reason = REFUSED[name]
    with pytest.raises(hr.InputError, match="loss of its own over the edges" if name == "SuperGATConv" else reason):
        on_ranks(make, takes)
