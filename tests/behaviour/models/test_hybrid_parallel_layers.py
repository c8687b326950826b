"""Layers of `hr.nn` where ranks share edges: outputs and gradients are those of one process."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from hybrid import KINDS, NUM_CLASSES, WIDTH, plan
from ranks import run_ranks
from torch import nn

import headrace as hr

from plans import NUM_NODES, graph

Arguments = Callable[[hr.MiniBatch, int], tuple[torch.Tensor, ...]]
LAYERS: dict[str, tuple[Callable[[int, int], nn.Module], Arguments]] = {
    "SAGE": (hr.nn.SAGEConv, lambda batch, layer: ()),
    "SAGE, max": (lambda *sizes: hr.nn.SAGEConv(*sizes, "max"), lambda batch, layer: ()),
    "GCN": (lambda *sizes: hr.nn.GCNConv(*sizes, normalize=False), lambda batch, layer: (batch.edge["norm"][layer],)),
    "GIN": (lambda *sizes: hr.nn.GINConv(nn.Linear(*sizes)), lambda batch, layer: ()),
    "Cluster-GCN": (lambda *sizes: hr.nn.ClusterGCNConv(*sizes, 0.3), lambda batch, layer: ()),
    "GAT": (
        lambda *sizes: hr.nn.GATConv(*sizes, heads=2, concat=False, edge_dim=3, add_self_loops=False),
        lambda batch, layer: (batch.edge["e"][layer],),
    ),
    "GAT, dropout": (
        lambda *sizes: hr.nn.GATConv(*sizes, heads=2, concat=False, dropout=0.4, add_self_loops=False),
        lambda batch, layer: (),
    ),
    "GATv2, dropout": (
        lambda *sizes: hr.nn.GATv2Conv(*sizes, heads=2, concat=False, dropout=0.4),
        lambda batch, layer: (),
    ),
    "Transformer, dropout": (
        lambda *sizes: hr.nn.TransformerConv(*sizes, heads=2, concat=False, dropout=0.4, edge_dim=3),
        lambda batch, layer: (batch.edge["e"][layer],),
    ),
}


class Network(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        make, self.arguments = LAYERS[name]
        self.layers = nn.ModuleList([make(WIDTH, 8), make(8, NUM_CLASSES)])

    def forward(self, h: torch.Tensor, blocks: tuple[hr.Block, ...], batch: hr.MiniBatch) -> torch.Tensor:
        first, last = self.layers
        return last(first(h, blocks[0], *self.arguments(batch, 0)).tanh(), blocks[1], *self.arguments(batch, 1))


def assert_as_one_process(name: str, strategy: str, partition: hr.EdgePartition | hr.Partition) -> None:
    torch.manual_seed(0)
    network = Network(name).double()

    def run(comm: hr.Comm | None) -> list[tuple[torch.Tensor, list[torch.Tensor]]]:
        model, found = hr.cooperative(copy.deepcopy(network)), []
        with plan(strategy).loader(comm=comm, cooperative=comm is not None, partition=partition) as loader:
            for batch in loader:
                model.zero_grad()
                out = model(batch, batch.x, batch.blocks, batch)[batch.seed_index]
                (out.square().sum() / batch.num_global_seeds).backward()
                hr.sum_gradients(model, comm)
                found.append((out.detach(), [one.grad.clone() for one in model.parameters()]))
        return found

    alone, shares = run(None), run_ranks(partition.num_parts, run)
    for (out, gradients), *mine in zip(alone, *shares, strict=True):
        torch.testing.assert_close(torch.cat([share[0] for share in mine]), out, rtol=1e-9, atol=1e-9)
        for share in mine:
            for found, expected in zip(share[1], gradients, strict=True):
                torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.combinations(4)
@pytest.mark.parametrize("strategy", ["mini", "cluster with boundary"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_one_process(name, strategy):
    assert_as_one_process(name, strategy, KINDS["grid"](graph(), 6))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["global", "mini", "cluster", "cluster with boundary"])
@pytest.mark.parametrize("kind", [*KINDS, "nodes"])
def test_degrees_within_a_batch(kind, strategy):
    """Cluster-GCN divides by them: edges of all ranks count, those from a node to itself do not."""
    partition = hr.Partition.hash(NUM_NODES, 3) if kind == "nodes" else KINDS[kind](graph(), 4)
    assert_as_one_process("Cluster-GCN", strategy, partition)


@pytest.mark.parametrize("kind", KINDS)
def test_self_loops_are_counted_by_masters(kind):
    partition = KINDS[kind](graph(), 4)
    steps = plan("global", 1)

    def run(comm: hr.Comm) -> torch.Tensor:
        with steps.loader(comm=comm, cooperative=True, partition=partition) as loader:
            (batch,) = loader
            return torch.zeros(NUM_NODES, dtype=torch.int64).index_add(0, batch.n_id, batch.blocks[0].self_loops())

    (batch,) = steps.loader()
    src, dst = batch.blocks[0].edge_index
    expected = torch.bincount(dst[src == dst], minlength=NUM_NODES)
    assert int(expected.max()) > 0
    assert torch.equal(sum(run_ranks(4, run)), expected)
