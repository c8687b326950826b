"""Aggregations have the bits of the CPU wherever they run: NaN, ties, hubs, many heads and dropout included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headrace import ops
from headrace.cuda.backend import stand_in
from headrace.ops import AttentionDropout, AttentionScores, attend, sddmm, spmm, spmm_extreme, transpose_csc
from headrace.ops.aggregate import attention, extreme

from edge_rows import DTYPES, rows_of

pytestmark = pytest.mark.twins


@pytest.fixture(params=DTYPES)
def dtype(request):
    return request.param


@pytest.fixture
def drawn(dtype):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        values = torch.randn(*shape, dtype=dtype, generator=generator)
        return values * 10.0 ** torch.randint(-2, 3, values.shape, generator=generator)

    return draw


@pytest.fixture(params=[torch.int32, torch.int64])
def rows(request):
    """Short rows, one of several segments, one of exactly two, and empty ones."""
    random = np.random.default_rng(1)
    degrees = random.integers(0, 9, 30)
    degrees[[3, 8]] = 100, 64
    return rows_of(degrees, 40, random, request.param)


def same(found, expected):
    return all(torch.equal(*(part.nan_to_num(9.5) for part in pair)) for pair in zip(found, expected, strict=True))


def on_cpu(function, *arguments, **named):
    """Call an operation of the CPU, whatever stands in for a GPU."""
    with stand_in(None):
        return function(*arguments, **named)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_extremes_and_products(rows, dtype, drawn, weighted):
    x, a = drawn(rows.num_src, 3, 7), drawn(rows.num_dst, 3, 7)
    x[5, 1, 2] = torch.nan
    weight = drawn(rows.num_edges, 3) if weighted else None
    divisors = torch.arange(1, rows.num_dst + 1, dtype=dtype)
    edges = rows.indptr, rows.indices
    cases = [
        (spmm, (*edges, x), {"weight": weight, "divisors": divisors}),
        (sddmm, (*edges, a, x), {"heads": 3}),
        (sddmm, (*edges, a, x), {}),
        *((spmm_extreme, (*edges, x.round()), {"weight": weight, "largest": one}) for one in (True, False)),
    ]
    for function, arguments, named in cases:
        found, expected = function(*arguments, **named), on_cpu(getattr(ops, function.__name__), *arguments, **named)
        pair = (found, expected) if isinstance(found, tuple) else ([found], [expected])
        assert same(*pair), function.__name__


@pytest.mark.parametrize("heads", [1, 4, 9])
def test_attention_there_and_back(rows, dtype, drawn, heads):
    x, source, destination = drawn(rows.num_src, heads, 11), drawn(rows.num_src, heads), drawn(rows.num_dst, heads)
    source[4, 0], source[6], source[7, 0] = -torch.inf, 0, torch.nan
    edge, weight = drawn(rows.num_edges, heads), drawn(rows.num_edges).clamp(min=0)
    ids = torch.arange(rows.num_edges).flip(0) * 2**33
    scores = AttentionScores(source, destination, edge, weight, 0.2, AttentionDropout(0.4, 2**63 + 9, ids))
    parts = [(slice(0, rows.num_edges), True)]
    if heads == 4:  # in two parts, whose second one is all of the edges again
        parts = [(slice(0, rows.num_edges), False), *parts]
    runs = []
    for run, call in ((attend, lambda call, *a, **b: call(*a, **b)), (ops.attend, on_cpu)):
        state = None
        for part, last in parts:
            state = call(
                run, rows.indptr, rows.indices[part], x * (1 + last), scores,
                positions=torch.arange(rows.num_edges, dtype=rows.indices.dtype), state=state, last=last,
            )  # fmt: skip
        runs.append(state)
    assert same(*runs)
    gradient, back = drawn(rows.num_dst, heads, 11), transpose_csc(rows.indptr, rows.indices, rows.num_src)
    there = (rows.indptr, rows.indices, x, scores, runs[0], gradient)
    again = (back.indptr, back.indices, x, scores, runs[0], gradient)
    for function, arguments, named in (
        (attention.attend_backward_destinations, there, {}),
        (attention.attend_backward_sources, again, {"positions": back.positions}),
    ):
        assert same(function(*arguments, **named), on_cpu(function, *arguments, **named)), function.__name__


def test_gradients_of_extremes(rows, dtype, drawn):
    x, gradient = drawn(rows.num_src, 2, 5), drawn(rows.num_dst, 2, 5)
    weight = drawn(rows.num_edges, 2)
    winners = spmm_extreme(rows.indptr, rows.indices, x, weight=weight).winners
    back = transpose_csc(rows.indptr, rows.indices, rows.num_src)
    arguments, named = (*back[:2], gradient, winners), {"weight": weight, "positions": back.positions}
    assert same([extreme.spmm_winners(*arguments, **named)], [on_cpu(extreme.spmm_winners, *arguments, **named)])
    products = (rows.indptr, rows.indices, gradient, x)
    assert same([sddmm(*products, heads=2, winners=winners)], [on_cpu(ops.sddmm, *products, heads=2, winners=winners)])
