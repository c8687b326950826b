"""Every class of PyG that passes messages, on edges that ranks share: equal to one process, or refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hybrid import KINDS
from pyg_classes import EQUAL, REFUSED, assert_as_whole, outcome
from ranks import run_ranks
from sharded import edge_index
from torch import Tensor, nn

import headrace as hr

from plans import graph


class Recorded(nn.Module):
    """A model of one layer, that keeps its rows."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *args: Any) -> Tensor:
        self.rows = self.layer(*args)
        return self.rows.detach()


def on_ranks(make: Callable[[], nn.Module], takes: str, kind: str = "grid") -> list[tuple[Any, dict[str, Any]]]:
    """For each rank its nodes and edges, and the outcome of a layer over the whole graph."""
    torch.manual_seed(0)
    layer = make().double()
    steps = hr.GlobalBatch(graph(), seed=1).sample_in_subgraph(graph())

    def work(comm: hr.Comm) -> tuple[Any, dict[str, Any]]:
        with steps.loader(comm=comm, cooperative=True, partition=KINDS[kind](graph(), 2)) as loader:
            batch = next(iter(loader))
            block, model = batch.blocks[0], Recorded(copy.deepcopy(layer))
            together = hr.cooperative(model, [model.layer])

            class Layer(nn.Module):
                def forward(self, *args: Any) -> Tensor:
                    together(batch, *args)
                    return model.rows

                def named_parameters(self) -> Any:
                    return model.layer.named_parameters()

                def parameters(self) -> Any:
                    return model.layer.parameters()

            values = outcome(
                Layer(),
                takes,
                block.edge_index,
                lambda all_rows: all_rows[batch.n_id],
                lambda values: values[block.edge_ids],
                comm,
            )
            return (batch.n_id, block.edge_ids), values

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
