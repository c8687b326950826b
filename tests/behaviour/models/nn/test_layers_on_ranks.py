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
        (hr.nn.GCNConv, {"normalize": False}),
    ],
    ids=["mean", "max", "attention", "dropout", "dropout without loops", "sum"],
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
def test_degrees_of_sources_are_refused_where_other_ranks_have_their_edges(bound):
    plan = items(batch_size=40).sample_neighbor(graph(), [4, 3]).fetch_feature(store(torch.float32), node=["x"])
    model = Network(hr.nn.GCNConv)

    def run(batch: hr.MiniBatch) -> torch.Tensor:
        return hr.cooperative(copy.deepcopy(model))(batch, batch.x, batch.blocks if bound else iter(batch.blocks))

    def work(comm: hr.Comm) -> None:
        with plan.loader(comm=comm, cooperative=True) as loader:
            batch = next(iter(loader))
            if comm.world_size == 1:
                assert run(batch).shape[1] == NUM_CLASSES
                return
            with pytest.raises(hr.InputError, match=r"GCNConv: .* 2 ranks make together, .*hr\.gcn_norm"):
                run(batch)

    for world_size in (1, 2):
        run_ranks(world_size, work)
