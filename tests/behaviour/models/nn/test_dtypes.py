"""Rows of another dtype than the weights of a layer: refused with what converts them, unless autocast does."""

from __future__ import annotations

import copy

import pytest
import torch
from one_hub import LAYERS, WIDTH, block, drawn
from torch import nn

import headrace as hr

SIZED = {name: make for name, make in LAYERS.items() if name not in ("GIN", "GAT of edges")}
OTHERS = [
    (
        torch.float64,
        torch.float32,
        r"x of float32, .*got float64\[700, 8\]; pass x\.float\(\), or fetch .*torch\.float32",
    ),
    (
        torch.bfloat16,
        torch.float32,
        r"got bfloat16.*pass x\.float\(\), .*or call the model under torch\.autocast\('cpu'\)",
    ),
    (torch.float16, torch.float32, r"got float16.*torch\.autocast"),
    (torch.float32, torch.bfloat16, r"x of bfloat16, .*pass x\.to\(torch\.bfloat16\), .*torch\.autocast"),
    (torch.int64, torch.float32, r"got int64\[700, 8\]; pass x\.float\(\)$"),
]


@pytest.mark.parametrize(("given", "weights", "words"), OTHERS)
@pytest.mark.parametrize("kind", SIZED)
def test_another_dtype_than_that_of_the_weights(kind, given, weights, words):
    layer = SIZED[kind]().to(weights)
    with pytest.raises(hr.InputError, match=f"^{type(layer).__name__}: expected .*{words}"):
        layer(drawn(700, WIDTH).to(given), block())


@pytest.mark.parametrize("kind", SIZED)
def test_autocast_converts_no_double_and_no_integers(kind):
    for given in (torch.float64, torch.int64):
        with torch.autocast("cpu", torch.bfloat16), pytest.raises(hr.InputError, match=r"expected x of float32"):
            SIZED[kind]()(drawn(700, WIDTH).to(given), block())


@pytest.mark.parametrize("kind", SIZED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_brings_rows_and_weights_together(kind, dtype):
    with torch.autocast("cpu", torch.bfloat16):
        for weights in (torch.float32, torch.bfloat16):
            assert SIZED[kind]().to(weights)(drawn(700, WIDTH).to(dtype), block()).isfinite().all()


@pytest.mark.parametrize("make", [lambda: nn.Linear(WIDTH, 4), lambda: nn.Sequential(nn.Linear(WIDTH, 4), nn.ReLU())])
def test_rows_of_gin(make):
    layer = hr.nn.GINConv(make())
    with pytest.raises(
        hr.InputError, match=r"^GINConv: expected x of a floating dtype, got int64.*; pass x\.float\(\)"
    ):
        layer(torch.ones(700, WIDTH, dtype=torch.int64), block())
    assert layer(drawn(700, WIDTH).bfloat16(), block()).dtype == torch.float32  # as eps makes them


def test_modules_that_convert_rows_themselves_may():
    layer, x = hr.nn.SAGEConv(WIDTH, 4), drawn(700, WIDTH)
    expected = copy.deepcopy(layer)(x, block())
    for linear in (layer.lin_l, layer.lin_r):
        linear.register_forward_pre_hook(lambda module, rows: (rows[0].float(),))
    torch.testing.assert_close(layer(x.double(), block()), expected)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(torch.library, "register_autograd"), reason="torch before 2.4 compiles around")
@pytest.mark.parametrize("kind", ["SAGE", "GCN", "GIN"])
def test_compiled_layers_under_autocast_are_one_graph(kind):
    layer, x = LAYERS[kind](), drawn(700, WIDTH).bfloat16()
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(compiled(x, block()), layer(x, block()), rtol=0.02, atol=0.02)
