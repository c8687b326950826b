"""Layers of hr.nn in batches that ranks make together: the training of one process."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from ranks import run_ranks
from training import NUM_CLASSES, WIDTH, assert_equal_training, store

import headrace as hr

from plans import graph, items

pytestmark = pytest.mark.slow


class Network(torch.nn.Module):
    """Two layers that take blocks as they are."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([kind(WIDTH, WIDTH, **options), kind(WIDTH, NUM_CLASSES, **options)])

    def forward(self, x: torch.Tensor, blocks: tuple[hr.Block, ...]) -> torch.Tensor:
        for conv, block in zip(self.convs, blocks, strict=True):
            x = conv(x, block).tanh()
        return x


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize(
    "layer",
    [
        (hr.nn.SAGEConv, {}),
        (hr.nn.SAGEConv, {"aggr": "max"}),
        (hr.nn.GATConv, {}),
        (hr.nn.GATConv, {"dropout": 0.5}),
        (hr.nn.GATConv, {"dropout": 0.5, "add_self_loops": False}),
        (hr.nn.GATv2Conv, {"dropout": 0.5}),
        (hr.nn.TransformerConv, {"dropout": 0.5}),
        (hr.nn.GCNConv, {"normalize": False}),
    ],
    ids=["mean", "max", "attention", "dropout", "dropout without loops", "GATv2", "Transformer", "sum"],
)
def test_training_equals_one_process(layer, world_size):
    torch.manual_seed(0)
    kind, options = layer
    plan = items(batch_size=40).sample_neighbor(graph(), [4, 3]).fetch_feature(
        store(torch.float64), node=["x"], labels="y"
    )  # fmt: skip
    assert_equal_training(plan, Network(kind, **options).double(), world_size, 1e-10)


def test_dropout_of_attention_needs_the_ids_of_edges_where_ranks_make_batches():
    plan = items(batch_size=40).sample_neighbor(graph(), [4, 3], edge_ids=False)
    plan = plan.fetch_feature(store(torch.float32), node=["x"])
    model = Network(hr.nn.GATConv, dropout=0.5)

    def work(comm: hr.Comm) -> None:
        with plan.loader(comm=comm, cooperative=True) as loader:
            batch = next(iter(loader))
            with pytest.raises(hr.InputError, match="sample with edge_ids=True"):
                hr.cooperative(copy.deepcopy(model))(batch, batch.x, batch.blocks)

    run_ranks(2, work)
    batch = next(iter(plan.loader()))
    assert hr.cooperative(model)(batch, batch.x, batch.blocks).shape[1] == NUM_CLASSES


@pytest.mark.parametrize("bound", [True, False], ids=["bound", "of the batch"])
def test_degrees_of_sources_come_from_their_owners(bound):
    plan = items(batch_size=40).sample_neighbor(graph(), [4, 3]).fetch_feature(store(torch.float64), node=["x"])
    model = Network(hr.nn.GCNConv).double()

    def work(comm: hr.Comm) -> torch.Tensor:
        with plan.loader(comm=comm, cooperative=True) as loader:
            batch = next(iter(loader))
            blocks = batch.blocks if bound else iter(batch.blocks)
            out = hr.cooperative(copy.deepcopy(model))(batch, batch.x, blocks).detach()
            return comm.all_reduce_sum(out.square().sum()[None])

    [alone], [two, _], [three, *_] = (run_ranks(world_size, work) for world_size in (1, 2, 3))
    torch.testing.assert_close(two, alone, rtol=1e-12, atol=0)
    torch.testing.assert_close(three, alone, rtol=1e-12, atol=0)
