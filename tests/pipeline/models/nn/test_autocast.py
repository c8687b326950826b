"""Layers of hr.nn under torch.autocast: products in bfloat16, aggregations in float32, as torch's sparse ones do."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import headrace as hr
from headrace import ops
from headrace.ops.aggregate.precision import widened

WIDTH, IN_EDGES = 8, 600

LAYERS = {
    "SAGE": lambda: hr.nn.SAGEConv(WIDTH, WIDTH),
    "SAGE max": lambda: hr.nn.SAGEConv(WIDTH, WIDTH, "max"),
    "GCN": lambda: hr.nn.GCNConv(WIDTH, WIDTH),
    "GCN narrow": lambda: hr.nn.GCNConv(WIDTH, 4),
    "GAT": lambda: hr.nn.GATConv(WIDTH, 4, 2),
    "GAT without loops": lambda: hr.nn.GATConv(WIDTH, 4, 2, add_self_loops=False),
    "GAT of edges": lambda: hr.nn.GATConv(WIDTH, 4, 2, edge_dim=3),
    "GIN": lambda: hr.nn.GINConv(nn.Linear(WIDTH, WIDTH)),
    "Cluster-GCN": lambda: hr.nn.ClusterGCNConv(WIDTH, WIDTH),
}


def block(weighted: bool = False) -> hr.Block:
    """A hub of more in-edges than bfloat16 counts to, and two nodes of a few."""
    generator = torch.Generator().manual_seed(1)
    indptr = torch.tensor([0, IN_EDGES, IN_EDGES + 3, IN_EDGES + 3])
    indices = torch.randint(0, 700, (int(indptr[-1]),), generator=generator)
    weight = torch.rand(len(indices), generator=generator) + 0.1 if weighted else None
    return hr.Block(indptr, indices, 700, 3, weight=weight)


def drawn(*shape: int, seed: int = 2) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


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
    expected = ops.aggregate_with_grad(edges.indptr, edges.indices, x.float(), weight=weight.float())
    with torch.autocast("cpu", torch.bfloat16):
        found = ops.aggregate_with_grad(edges.indptr, edges.indices, x, weight=weight)
    assert torch.equal(found, expected)


def test_attention_of_narrow_scores():
    edges, x = block(), drawn(700, 2, 4).bfloat16()
    source, destination = drawn(700, 2, seed=6).bfloat16(), drawn(3, 2, seed=7).bfloat16()
    exact = ops.AttentionScores(source.float(), destination.float())
    expected = ops.attend_with_grad(edges.indptr, edges.indices, x.float(), exact)
    with torch.autocast("cpu", torch.bfloat16):
        found = ops.attend_with_grad(edges.indptr, edges.indices, x, ops.AttentionScores(source, destination))
    assert torch.equal(found, expected)


def test_outside_of_autocast_narrow_rows_are_refused():
    edges, x = block(), drawn(700, WIDTH).bfloat16()
    with pytest.raises(hr.FeatureError, match=r"float32 or float64, got torch\.bfloat16"):
        ops.aggregate_with_grad(edges.indptr, edges.indices, x)
    with (
        torch.autocast("cpu", torch.bfloat16, enabled=False),
        pytest.raises(hr.FeatureError, match=r"got torch\.bfloat16"),
    ):
        ops.aggregate_with_grad(edges.indptr, edges.indices, x)


def test_devices_that_autocast_does_not_know():
    rows = torch.zeros(2, 2, dtype=torch.bfloat16, device="meta")
    assert widened(rows) is rows


def test_double_precision_stays():
    layer, edges, x = hr.nn.GATConv(WIDTH, 4).double(), block(), drawn(700, WIDTH).double()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer(x, edges), layer(x, edges))
        assert layer(x, edges).dtype == torch.float64
