"""Numbers and switches of layers that make no sense are refused when the layer is made."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import headrace as hr

SIZED = (hr.nn.ClusterGCNConv, hr.nn.GATConv, hr.nn.GCNConv, hr.nn.SAGEConv)
NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize("layer", SIZED)
@pytest.mark.parametrize("name", ["in_channels", "out_channels"])
@pytest.mark.parametrize("size", [0, -1, 1 << 40, 2.5, "2", None, True, (3, 3)])
def test_sizes_below_one(layer, name, size):
    with pytest.raises(
        hr.InputError,
        match=f"{layer.__name__}: expected {name} to be (one|an) integer (of at least 1|from 1 to .*), got",
    ):
        layer(**{"in_channels": 3, "out_channels": 2, name: size})


@pytest.mark.parametrize("layer", SIZED)
def test_sizes_of_numpy_are_sizes(layer):
    one = layer(np.int64(3), np.int32(2))
    assert type(one.in_channels) is int
    assert one(torch.zeros(1, 3), hr.Block(torch.tensor([0, 0]), torch.empty(0, dtype=torch.int32), 1, 1)).shape == (
        1,
        2,
    )


@pytest.mark.parametrize(
    ("layer", "name", "value"),
    [
        *((hr.nn.GATConv, "heads", value) for value in (0, -1, 1.5, None)),
        *((hr.nn.GATConv, "edge_dim", value) for value in (0, -2, 1.5)),
        *((hr.nn.GATConv, "negative_slope", value) for value in (NAN, INFINITE, "a", None, True)),
        *((hr.nn.GATConv, "dropout", value) for value in (NAN, 1, -0.1, "a")),
        *((hr.nn.ClusterGCNConv, "diag_lambda", value) for value in (NAN, -INFINITE, "a", None)),
        *((layer, "bias", 3) for layer in SIZED),
        (hr.nn.GATConv, "concat", "no"),
        (hr.nn.GATConv, "add_self_loops", None),
        (hr.nn.GCNConv, "improved", 2),
        (hr.nn.GCNConv, "normalize", "both"),
        (hr.nn.GCNConv, "add_self_loops", 1),
        (hr.nn.SAGEConv, "normalize", "l2"),
        (hr.nn.SAGEConv, "root_weight", 0.5),
        (hr.nn.SAGEConv, "aggr", ["mean"]),
    ],
)
def test_options_that_make_no_sense(layer, name, value):
    with pytest.raises(hr.InputError, match=f"{layer.__name__}: expected (a |){name} .*, got"):
        layer(3, 2, **{name: value})


@pytest.mark.parametrize(
    "options", [{"nn": len}, {"nn": 3}, {"eps": NAN}, {"eps": "a"}, {"train_eps": 1}], ids=lambda one: next(iter(one))
)
def test_options_of_gin(options):
    name = next(iter(options))
    with pytest.raises(hr.InputError, match=f"GINConv: expected {name} to be .*, got"):
        hr.nn.GINConv(**{"nn": nn.Linear(3, 2), **options})


@pytest.mark.parametrize("slope", [NAN, INFINITE, "a", None])
def test_a_slope_that_is_not_finite(slope):
    block = hr.Block(torch.tensor([0, 1]), torch.tensor([0]), 1, 1)
    rows, scores = torch.zeros(1, 1, 2), torch.zeros(1, 1)
    with pytest.raises(hr.InputError, match="expected slope to be a finite number, got"):
        block.attend(rows, scores, scores, slope=slope)
