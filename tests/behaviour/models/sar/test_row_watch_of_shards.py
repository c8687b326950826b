"""Modules of torch between layers over shards: those that mix rows are refused, at their first call."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from ranks import run_ranks
from sharded import NUM_CLASSES, WIDTH, features, owners
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph

pyg = pytest.importorskip("torch_geometric.nn")


class Between(nn.Module):
    """A module between two layers, on rows as they are or as one sequence."""

    def __init__(self, between: nn.Module, *, sequence: bool = False) -> None:
        super().__init__()
        self.first, self.second = pyg.SAGEConv(WIDTH, 8), pyg.SAGEConv(8, NUM_CLASSES)
        self.between, self.sequence = between, sequence

    def forward(self, x: Tensor, place: object) -> Tensor:
        h = self.first(x, place)
        out = self.between(h[None] if self.sequence else h)
        out = out[0] if isinstance(out, tuple) else out
        return self.second(out[0] if self.sequence else out, place)


def outputs(size: int, model: nn.Module) -> Tensor:
    """Return the model's outputs for all nodes, from `size` ranks."""

    def work(comm: hr.Comm) -> tuple[Tensor, Tensor]:
        part = hr.sar.ShardedGraph(graph(), owners("hash", size), comm=comm)
        wrapped = hr.sar.wrap(copy.deepcopy(model).double().eval(), part)
        with torch.no_grad():
            return part.owned, wrapped(part.rows(features(NUM_NODES, WIDTH)), part)

    out = torch.empty(NUM_NODES, NUM_CLASSES, dtype=torch.float64)
    for owned, rows in run_ranks(size, work):
        out[owned] = rows
    return out


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    ("kind", "sequence"),
    [
        (lambda: nn.Softmax(dim=0), False),
        (lambda: nn.Sequential(nn.ReLU(), nn.LogSoftmax(dim=0)), False),
        (lambda: nn.GRU(8, 8), False),
        (lambda: nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0, batch_first=True), True),
    ],
    ids=["softmax", "sequential", "gru", "transformer"],
)
def test_modules_of_torch_that_mix_rows_are_refused(kind, sequence, size):
    model = Between(kind(), sequence=sequence)
    assert outputs(1, model).shape == (NUM_NODES, NUM_CLASSES)
    with pytest.raises(hr.InputError, match=r"hr\.sar\.wrap: expected modules between layers to work row by row"):
        outputs(size, model)


@pytest.mark.parametrize("kind", [lambda: nn.Softmax(dim=1), lambda: nn.LayerNorm(8), lambda: nn.BatchNorm1d(8)])
def test_modules_of_torch_that_work_row_by_row_are_taken(kind):
    model = Between(kind())
    torch.testing.assert_close(outputs(3, model), outputs(1, model), rtol=1e-9, atol=1e-9)


def test_modules_are_tried_once_in_each_mode_and_copies_keep_no_channel():
    plain = Between(nn.LayerNorm(8)).double()

    def work(comm: hr.Comm) -> int:
        part = hr.sar.ShardedGraph(graph(), owners("hash", 2), comm=comm)
        model = hr.sar.wrap(copy.deepcopy(plain), part)
        kept = pickle.loads(pickle.dumps(model.between))  # noqa: S301 - made here
        assert kept(torch.ones(2, 8, dtype=torch.float64)).shape == (2, 8)
        for training in (True, False, True):
            model.train(training)(part.rows(features(NUM_NODES, WIDTH)), part)
        return len(model.between._forward_pre_hooks)

    assert run_ranks(2, work) == [0, 0]
