"""Modules between layers of cooperating ranks are those of one process for any number of ranks, or are refused."""

from __future__ import annotations

import warnings
from contextlib import suppress

import pytest
import torch
import torch.nn.functional as F
from between_layers import FORMS, WIDTH, Net, made, run, trained
from torch import Tensor, nn

import headrace as hr

pyg = pytest.importorskip("torch_geometric.nn")

SIZES = [2, 3]


class ByTotal(nn.Module):
    """A module of a user."""

    def forward(self, h: Tensor) -> Tensor:
        return F.normalize(h, dim=0)


class ByNumber(nn.Module):
    def forward(self, h: Tensor) -> Tensor:
        return h / len(h)


class ByPosition(nn.Module):
    def forward(self, h: Tensor) -> Tensor:
        return h + torch.arange(len(h), dtype=h.dtype)[:, None] / 100


class Summary(nn.Module):
    """One row for all nodes, as a virtual node has it."""

    def forward(self, h: Tensor) -> Tensor:
        return h.mean(0, keepdim=True)


def width() -> dict[str, object]:
    return {"d_model": WIDTH, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0}


#: What takes arguments other than none.
MADE = {
    nn.AdaptiveAvgPool1d: lambda: nn.AdaptiveAvgPool1d(4),
    nn.AdaptiveAvgPool2d: lambda: nn.AdaptiveAvgPool2d(4),
    nn.AdaptiveMaxPool1d: lambda: nn.AdaptiveMaxPool1d(4),
    nn.AvgPool1d: lambda: nn.AvgPool1d(3, 1, 1),
    nn.BatchNorm1d: lambda: nn.BatchNorm1d(WIDTH),
    nn.ChannelShuffle: lambda: nn.ChannelShuffle(2),
    nn.Conv1d: lambda: nn.Conv1d(WIDTH, WIDTH, 1),
    nn.ConvTranspose1d: lambda: nn.ConvTranspose1d(WIDTH, WIDTH, 1),
    nn.GroupNorm: lambda: nn.GroupNorm(2, WIDTH),
    nn.GRU: lambda: nn.GRU(WIDTH, WIDTH),
    nn.GRUCell: lambda: nn.GRUCell(WIDTH, WIDTH),
    nn.InstanceNorm1d: lambda: nn.InstanceNorm1d(WIDTH),
    nn.LPPool1d: lambda: nn.LPPool1d(2, 1),
    nn.LSTM: lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True),
    nn.LSTMCell: lambda: nn.LSTMCell(WIDTH, WIDTH),
    nn.LayerNorm: lambda: nn.LayerNorm(WIDTH),
    nn.Linear: lambda: nn.Linear(WIDTH, WIDTH),
    nn.LocalResponseNorm: lambda: nn.LocalResponseNorm(2),
    nn.MaxPool1d: lambda: nn.MaxPool1d(3, 1, 1),
    nn.PixelShuffle: lambda: nn.PixelShuffle(1),
    nn.RNN: lambda: nn.RNN(WIDTH, WIDTH),
    nn.RNNCell: lambda: nn.RNNCell(WIDTH, WIDTH),
    nn.Threshold: lambda: nn.Threshold(0.1, 0.0),
    nn.TransformerEncoderLayer: lambda: nn.TransformerEncoderLayer(**width()),
    nn.TransformerEncoder: lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**width()), 1),
    nn.Upsample: lambda: nn.Upsample(scale_factor=1.0),
    pyg.AttentionalAggregation: lambda: pyg.AttentionalAggregation(nn.Linear(WIDTH, 1)),
    pyg.DiffGroupNorm: lambda: pyg.DiffGroupNorm(WIDTH, 2),
    pyg.GraphSizeNorm: pyg.GraphSizeNorm,
    pyg.JumpingKnowledge: lambda: pyg.JumpingKnowledge("max"),
    pyg.MLP: lambda: pyg.MLP([WIDTH, 16, WIDTH]),
    pyg.PairNorm: pyg.PairNorm,
    pyg.Set2Set: lambda: pyg.Set2Set(WIDTH, 1),
    pyg.SoftmaxAggregation: pyg.SoftmaxAggregation,
    pyg.QuantileAggregation: lambda: pyg.QuantileAggregation(0.5),
    pyg.PowerMeanAggregation: pyg.PowerMeanAggregation,
}
MORE = {
    "RReLU": nn.RReLU,
    "LayerNorm of graphs": lambda: pyg.LayerNorm(WIDTH),
    "LayerNorm of nodes": lambda: pyg.LayerNorm(WIDTH, mode="node"),
    "Softmax over rows": lambda: nn.Softmax(dim=0),
    "Softmax over columns": lambda: nn.Softmax(dim=-1),
    "LogSoftmax over rows": lambda: nn.LogSoftmax(dim=0),
    "Softmin over rows": lambda: nn.Softmin(dim=0),
    "MLP of users": lambda: nn.Sequential(nn.Linear(WIDTH, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, WIDTH)),
    "attention with draws": lambda: nn.MultiheadAttention(WIDTH, 2, dropout=0.5),
    "GRU with draws": lambda: nn.GRU(WIDTH, WIDTH, 2, dropout=0.5),
    "Transformer by batches": lambda: nn.TransformerEncoderLayer(**width(), batch_first=True),
    "normalised over rows": ByTotal,
    "divided by the number of rows": ByNumber,
    "a row by its position": ByPosition,
    "one row": Summary,
}


def kinds() -> dict[str, object]:
    """What each class of torch's and PyG's norms, aggregations and attentions makes, as far as it can be called."""
    found = {name: getattr(nn, name) for name in dir(nn)}
    for module in (pyg.norm, pyg.aggr, pyg.attention):
        found.update({f"pyg.{name}": getattr(module, name) for name in dir(module)})
    found.update({"pyg.MLP": pyg.MLP, "pyg.JumpingKnowledge": pyg.JumpingKnowledge})
    classes = {name: one for name, one in found.items() if isinstance(one, type) and issubclass(one, nn.Module)}
    # Lazy modules have parameters of their own on each rank, which are compared with the next batch.
    kept = {name: one for name, one in classes.items() if not name.startswith("Lazy") and not name.endswith("Loss")}
    makers = {name: MADE.get(one, one) for name, one in kept.items()}
    return {name: make for name, make in {**makers, **MORE}.items() if made(make) is not None}


KINDS = kinds()


@pytest.mark.combinations(8)
@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_modules_are_exact_or_refused(name):
    """Whatever a class does, in each form of call that it takes."""
    for form in FORMS.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = Net(KINDS[name], form).double()
            whole: list[float] = []
            with suppress(Exception):  # no form in which it can be called, or refused on one process as well
                whole = run(1, model)
            for size in SIZES if whole else ():
                with suppress(hr.InputError):
                    assert run(size, model) == pytest.approx(whole, rel=1e-6, abs=1e-9, nan_ok=True)


@pytest.mark.slow
@pytest.mark.combinations(8)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("TransformerEncoderLayer", "rows"),
        ("TransformerEncoderLayer", "sequence"),
        ("Transformer by batches", "one item"),
        ("MultiheadAttention", "itself"),
        ("GRU", "rows"),
        ("LSTM", "rows"),
        ("Softmax over rows", "rows"),
        ("normalised over rows", "rows"),
        ("divided by the number of rows", "rows"),
        ("a row by its position", "rows"),
        ("one row", "rows"),
        ("pyg.MeanAggregation", "by group"),
    ],
)
def test_modules_that_mix_rows_are_refused(name, form, size):
    with pytest.raises(hr.InputError, match=r"expected modules between layers to work row by row.*normalise by nn"):
        run(size, Net(KINDS[name], FORMS[form]).double())


@pytest.mark.parametrize("name", ["RReLU", "attention with draws", "GRU with draws", "FractionalMaxPool2d"])
def test_modules_that_draw_are_refused_on_one_process_as_well(name):
    with pytest.raises(hr.InputError, match="would draw on each rank for itself"):
        hr.cooperative(Net(KINDS.get(name, lambda: nn.FractionalMaxPool2d(2, output_ratio=0.5)), FORMS["rows"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("Transformer by batches", "sequence"),
        ("GRUCell", "rows"),
        ("LSTM", "sequence"),
        ("pyg.JumpingKnowledge", "layers"),
        ("pyg.MLP", "rows"),
        ("MLP of users", "rows"),
        ("BatchNorm1d", "rows"),
        ("Dropout", "rows"),
        ("pyg.DiffGroupNorm", "rows"),
        ("Softmax over columns", "rows"),
        ("LayerNorm of nodes", "rows"),
    ],
)
def test_modules_that_work_row_by_row_are_taken(name, form):
    model = Net(KINDS[name], FORMS[form]).double()
    assert run(2, model) == pytest.approx(run(1, model), rel=1e-6, abs=1e-9)


def test_dropout_of_other_than_rows_is_refused():
    """Masks would be those of the first nodes of each rank."""
    with pytest.raises(hr.InputError, match=r"expected dropout of the rows of .* nodes, got 1 rows"):
        run(2, Net(nn.Dropout, FORMS["one item"]).double())


def test_modules_are_called_once_and_left_as_they_were():
    calls = []

    class Noting(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            calls.append(self.training)
            return h

    trained(Net(Noting, FORMS["rows"]).double())
    assert len(calls) == 2 * 3 * 2 * 2  # three epochs of two batches and layers
