"""Modules between layers over shards: those that mix rows are refused, at their first call."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence

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


def outputs(size: int, model: nn.Module, row_local: Sequence[str] = (), compiled: bool = False) -> Tensor:
    """Return the model's outputs for all nodes, from `size` ranks."""

    def work(comm: hr.Comm) -> tuple[Tensor, Tensor]:
        part = hr.sar.ShardedGraph(graph(), owners("hash", size), comm=comm)
        copied = copy.deepcopy(model).double().eval()
        wrapped = hr.sar.wrap(copied, part, row_local=[copied.get_submodule(name) for name in row_local])
        if compiled:
            wrapped.between.compile(backend="aot_eager")
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


class Users(nn.Module):
    """A module of a user: an MLP with a residual connection, or one that mixes rows."""

    def __init__(self, mixes: bool) -> None:
        super().__init__()
        self.norm, self.lin, self.mixes = nn.LayerNorm(8), nn.Linear(8, 8), mixes

    def forward(self, h: Tensor) -> Tensor:
        h = h + self.lin(self.norm(h).relu())
        return h - h.mean(0) if self.mixes else h


class Summing(nn.Module):
    """A module that meets the other ranks by itself."""

    comm: hr.Comm | None = None

    def forward(self, h: Tensor, place: object) -> Tensor:
        total = h.sum(0)
        return h - (total if place.comm is None else place.comm.all_reduce_sum(total)) / NUM_NODES


class TakesGraph(Between):
    def forward(self, x: Tensor, place: object) -> Tensor:
        return self.second(self.between(self.first(x, place), place), place)


def test_a_module_of_a_user_is_watched():
    model = Between(Users(False))
    torch.testing.assert_close(outputs(3, model), outputs(1, model), rtol=1e-9, atol=1e-9)
    expected = r"Users, which looks at several rows at once, in mean \(test_row_watch_of_shards\.py:\d+: return h - "
    with pytest.raises(hr.InputError, match=expected):
        outputs(2, Between(Users(True)))
    assert outputs(1, Between(Users(True))).shape == (NUM_NODES, NUM_CLASSES)


def test_a_module_of_a_layer_is_watched():
    """Of rows of nodes: those of messages are another matter."""
    for mixes in (False, True):
        model = Between(nn.Identity())
        model.second = pyg.GINConv(nn.Sequential(Users(mixes), nn.Linear(8, NUM_CLASSES)))
        whole = outputs(1, model)
        if not mixes:
            torch.testing.assert_close(outputs(2, model), whole, rtol=1e-9, atol=1e-9)
            continue
        with pytest.raises(hr.InputError, match=r"Users, which looks at several rows at once, in mean"):
            outputs(2, model)


def test_a_module_that_takes_the_graph_is_not_watched():
    model = TakesGraph(Summing())
    torch.testing.assert_close(outputs(2, model), outputs(1, model), rtol=1e-9, atol=1e-9)


def test_modules_that_cannot_be_seen_are_declared():
    model = Between(torch.jit.script(nn.Linear(8, 8)))
    with pytest.raises(hr.InputError, match=r"cannot be seen .*hr\.sar\.wrap\(\.\.\., row_local="):
        outputs(2, model)
    torch.testing.assert_close(outputs(2, model, ["between"]), outputs(1, model), rtol=1e-9, atol=1e-9)


def test_modules_that_are_compiled_are_watched():
    model = Between(Users(False))
    torch.testing.assert_close(outputs(2, model, compiled=True), outputs(1, model), rtol=1e-9, atol=1e-9)
    with pytest.raises(hr.InputError, match=r"Users, which looks at several rows at once, in mean"):
        outputs(2, Between(Users(True)), compiled=True)


def test_modules_are_watched_once_in_each_mode_and_copies_keep_no_channel():
    plain = Between(nn.LayerNorm(8)).double()

    def work(comm: hr.Comm) -> list[bool]:
        part = hr.sar.ShardedGraph(graph(), owners("hash", 2), comm=comm)
        model = hr.sar.wrap(copy.deepcopy(plain), part)
        copies = pickle.loads(pickle.dumps(model.between)), copy.deepcopy(model.between)  # noqa: S301 - of this test
        for kept in copies:
            assert kept(torch.ones(2, 8, dtype=torch.float64)).shape == (2, 8)
            assert kept.forward.__self__ is kept
        watched = []
        for training in (True, False, True):
            watched.append("forward" in vars(model.between))
            model.train(training)(part.rows(features(NUM_NODES, WIDTH)), part)
        hr.sar.wrap(hr.sar.wrap(model, part), hr.sar.ShardedGraph(graph()))
        return [*watched, "forward" in vars(model.between)]

    assert run_ranks(2, work) == [[True, True, False, False]] * 2
