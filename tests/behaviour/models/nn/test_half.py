"""Models in half precision: rows of float16 and bfloat16 are added up in float32, and come back as they were given."""

from __future__ import annotations

import copy

import pytest
import torch
from one_hub import IN_EDGES, LAYERS, WIDTH, block, drawn
from torch import nn

import headrace as hr

HALVES = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("kind", LAYERS)
def test_layers_are_those_of_float32_but_for_rounding(kind, dtype, weighted):
    torch.manual_seed(0)
    layer, edges = LAYERS[kind]().to(dtype), block(weighted)
    x, attributes = drawn(700, WIDTH).to(dtype), drawn(edges.num_edges, 3, seed=4).to(dtype)
    found = []
    for one, rows, given in (
        (copy.deepcopy(layer).float(), x.float(), attributes.float()),
        (copy.deepcopy(layer), x.clone(), attributes),
    ):
        out = one(rows.requires_grad_(), edges, *([given] if kind == "GAT of edges" else []))
        (out.float() * drawn(*out.shape)).sum().backward()
        gradients = [rows.grad, *(parameter.grad for parameter in one.parameters())]
        assert {gradient.dtype for gradient in gradients} == {out.dtype} == {rows.dtype}
        found.append([out.detach().float(), *(gradient.float() for gradient in gradients)])
    for exact, rounded in zip(*found, strict=True):
        scale = float(exact.abs().max())
        assert torch.allclose(rounded, exact, rtol=0, atol=0.06 * scale), float((rounded - exact).abs().max()) / scale


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_reductions_are_those_of_float32_rounded_once(dtype, reduce):
    edges, x, weight = block(), drawn(700, WIDTH).to(dtype), drawn(block().num_edges, seed=5).to(dtype)
    single = edges.aggregate(x.float(), reduce=reduce, weight=weight.float())
    assert torch.equal(edges.aggregate(x, reduce=reduce, weight=weight), single.to(dtype))
    assert torch.equal(edges.aggregate(x, reduce=reduce), edges.aggregate(x.float(), reduce=reduce).to(dtype))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_attention_is_that_of_float32_rounded_once(dtype):
    edges, x = block(), drawn(700, 2, 4).to(dtype)
    source, destination = drawn(700, 2, seed=6).to(dtype), drawn(3, 2, seed=7).to(dtype)
    single = edges.attend(x.float(), source.float(), destination.float())
    found = edges.attend(x, source, destination)
    assert torch.equal(found, single.to(dtype))


def test_sums_are_not_rounded_at_each_edge():
    """256 and 1 are 256 in bfloat16: 600 ones would be 256."""
    edges = block()
    assert edges.aggregate(torch.ones(700, 1, dtype=torch.bfloat16), reduce="sum")[0] == 600
    assert IN_EDGES == 600


def test_degrees_are_counted_exactly():
    layer = hr.nn.GCNConv(2, 2, bias=False)
    nn.init.eye_(layer.lin.weight)
    expected = layer(torch.ones(700, 2), block()).bfloat16()
    assert torch.equal(layer.bfloat16()(torch.ones(700, 2).bfloat16(), block()), expected)


@pytest.mark.parametrize(
    "kind", [kind if kind == "GCN" else pytest.param(kind, marks=pytest.mark.slow) for kind in LAYERS]
)
def test_layers_compile_as_one_graph(kind):
    if kind == "GAT of edges":
        kind = "GAT"
    layer, edges, x = LAYERS[kind]().bfloat16(), block(), drawn(700, WIDTH).bfloat16()
    torch.compiler.reset()
    out = torch.compile(layer, fullgraph=True, backend="aot_eager")(x, edges)
    torch.testing.assert_close(out, layer(x, edges), rtol=0.02, atol=0.02)
    assert out.dtype == torch.bfloat16


def test_norms_keep_the_dtype():
    rows, edges = drawn(3, WIDTH).bfloat16(), block()
    for norm in (hr.nn.GraphNorm(WIDTH), hr.nn.BatchNorm(WIDTH)):
        expected = copy.deepcopy(norm)(rows.float(), edges)
        assert torch.allclose(norm.bfloat16()(rows, edges).float(), expected, atol=0.03)
