"""Layers of hr.nn under torch.autocast: products in bfloat16, aggregations in float32, as torch's sparse ones do."""

from __future__ import annotations

import copy

import pytest
import torch
from one_hub import LAYERS, WIDTH, block, drawn
from torch import nn

import headrace as hr


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("narrow", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("kind", LAYERS)
def test_outputs_and_gradients_are_those_of_float32_but_for_rounding(kind, narrow, weighted):
    torch.manual_seed(0)
    layer, edges, x = LAYERS[kind](), block(weighted), drawn(700, WIDTH).bfloat16().float()
    given = [drawn(edges.num_edges, 3, seed=4)] if kind == "GAT of edges" else []
    found = []
    for casts in (False, True):
        one, rows = copy.deepcopy(layer), x.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=casts):
            # Narrow rows are what a linear layer before gives.
            out = one(rows.bfloat16() if narrow and casts else rows, edges, *given)
        (out.float() * drawn(*out.shape)).sum().backward()
        assert all(parameter.grad.dtype == torch.float32 for parameter in one.parameters())
        found.append([out.float().detach(), rows.grad, *(parameter.grad for parameter in one.parameters())])
    for exact, rounded in zip(*found, strict=True):
        scale = float(exact.abs().max())
        assert torch.allclose(rounded, exact, rtol=0, atol=0.03 * scale), float((rounded - exact).abs().max()) / scale


def test_degrees_are_counted_exactly():
    """In bfloat16 257 is 256: the norm of a graph convolution would be off by more than its products are."""
    edges = block()
    layer = hr.nn.GCNConv(2, 1, bias=False)
    nn.init.ones_(layer.lin.weight)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(torch.ones(700, 2).bfloat16(), edges)
    assert torch.allclose(out, layer(torch.ones(700, 2), edges), rtol=1e-6)


def test_sums_are_those_of_float32_to_the_bit():
    edges, x = block(), drawn(700, WIDTH).bfloat16()
    weight = drawn(edges.num_edges, seed=5).bfloat16()
    expected = edges.aggregate(x.float(), weight=weight.float())
    with torch.autocast("cpu", torch.bfloat16):
        out = edges.aggregate(x, weight=weight)
    assert torch.equal(out, expected)


def test_attention_of_narrow_scores():
    edges, x = block(), drawn(700, 2, 4).bfloat16()
    source, destination = drawn(700, 2, seed=6).bfloat16(), drawn(3, 2, seed=7).bfloat16()
    expected = edges.attend(x.float(), source.float(), destination.float())
    with torch.autocast("cpu", torch.bfloat16):
        out = edges.attend(x, source, destination)
    assert torch.equal(out, expected)


def test_double_precision_stays():
    layer, edges, x = hr.nn.GATConv(WIDTH, 4).double(), block(), drawn(700, WIDTH).double()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer(x, edges), layer(x, edges))
        assert layer(x, edges).dtype == torch.float64
