"""What devices without a kernel do, by torch's operations, against the kernels: the same within rounding."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import AttentionDropout, AttentionScores, Extremes, attend, sddmm, spmm, spmm_extreme, transpose_csc
from headrace.ops.aggregate.attention import Attended, attend_backward_destinations, attend_backward_sources
from headrace.ops.aggregate.extreme import spmm_winners
from headrace.ops.aggregate.transpose import _sorted

from edge_rows import edge_rows

CLOSE = {"rtol": 1e-10, "atol": 1e-10, "equal_nan": True}


def drawn(data, *shape):
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**32)))
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


@contextmanager
def without_kernels():
    """What the doors do where a device has none, but in memory of the CPU."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("spmm", "extreme", "attention"):
            door = import_module(f"headrace.ops.aggregate.{name}")
            patch.setattr(door, "by_device", lambda x, on_cpu, on_gpu, on_torch: on_torch)
        yield


def test_devices_without_kernels_take_it():
    """Such as one that computes shapes alone."""
    indptr, indices = (torch.tensor(values, device="meta") for values in ([0, 2, 3], [1, 2, 0]))
    x, scores = torch.ones(3, 4, 5, device="meta"), AttentionScores(*torch.ones(5, 4, device="meta").split([3, 2]))
    assert spmm(indptr, indices, x).is_meta
    assert sddmm(indptr, indices, x[:2], x).shape == (3,)
    assert spmm_extreme(indptr, indices, x).winners.is_meta
    assert attend(indptr, indices, x, scores).largest.shape == (2, 4)


@given(edge_rows(), st.sampled_from(["none", "edge", "head"]), st.booleans(), st.data())
def test_sums_and_products(rows, weights, onto, data):
    x, a = drawn(data, rows.num_src, 3, 2), drawn(data, rows.num_dst, 3, 2)
    shape = (rows.num_edges, 3) if weights == "head" else (rows.num_edges,)
    weight = None if weights == "none" else drawn(data, *shape)
    back = transpose_csc(rows.indptr, rows.indices, rows.num_src)
    for one, other in zip(_sorted(rows.indptr, rows.indices, rows.num_src), back, strict=True):
        assert torch.equal(one.long(), other.long())
    outs = [drawn(data, rows.num_src, 3, 2)] * 2 if onto else [None, None]
    outs = [None if out is None else out.clone() for out in outs]
    divisors = torch.arange(1, rows.num_src + 1).double()
    asked = {"weight": weight, "positions": back.positions}
    ours = spmm(*back[:2], a, **asked, divisors=divisors, out=outs[0])
    with without_kernels():
        theirs = spmm(*back[:2], a, **asked, divisors=divisors, out=outs[1])
    assert torch.allclose(ours, theirs, **CLOSE)
    winners = spmm_extreme(rows.indptr, rows.indices, x, weight=weight).winners
    for heads, found in ((None, None), (3, None), (3, winners)):
        one = sddmm(rows.indptr, rows.indices, a, x, heads=heads, winners=found)
        with without_kernels():
            other = sddmm(rows.indptr, rows.indices, a, x, heads=heads, winners=found)
        assert torch.allclose(one, other, **CLOSE)
    one = spmm_winners(*back[:2], a, winners, **asked)
    with without_kernels():
        other = spmm_winners(*back[:2], a, winners, **asked)
    assert torch.allclose(one, other, **CLOSE)


@given(edge_rows(), st.booleans(), st.booleans(), st.data())
def test_extremes(rows, largest, in_parts, data):
    x = drawn(data, rows.num_src, 4).round()
    x = x.where(x != 2, torch.nan)
    states = [None, None]
    if in_parts:
        first = spmm_extreme(rows.indptr, rows.indices, x.flip(0), largest=largest, last=False)
        states = [Extremes(*(part.clone() for part in first)) for _ in range(2)]
    positions = torch.arange(rows.num_edges, dtype=rows.indices.dtype) + 10 * in_parts
    ours = spmm_extreme(rows.indptr, rows.indices, x, largest=largest, positions=positions, state=states[0])
    with without_kernels():
        theirs = spmm_extreme(rows.indptr, rows.indices, x, largest=largest, positions=positions, state=states[1])
    assert torch.equal(ours.winners, theirs[1])
    assert torch.allclose(ours.values, theirs[0], **CLOSE)


@given(edge_rows(), st.booleans(), st.booleans(), st.booleans(), st.data())
def test_attention(rows, with_edges, with_weights, in_parts, data):
    heads = 3
    x, gradient = drawn(data, rows.num_src, heads, 2), drawn(data, rows.num_dst, heads, 2)
    scores = AttentionScores(
        drawn(data, rows.num_src, heads),
        drawn(data, rows.num_dst, heads),
        drawn(data, rows.num_edges, heads) if with_edges else None,
        drawn(data, rows.num_edges).clamp(min=0) if with_weights else None,
        0.2,
        AttentionDropout(0.4, 3) if data.draw(st.booleans()) else None,
    )
    states = [None, None]
    if in_parts:
        first = attend(rows.indptr, rows.indices, x.flip(0), scores, last=False)
        states = [Attended(*(part.clone() for part in first)) for _ in range(2)]
    ours = attend(rows.indptr, rows.indices, x, scores, state=states[0])
    with without_kernels():
        theirs = attend(rows.indptr, rows.indices, x, scores, state=states[1])
    assert all(torch.allclose(one, other, **CLOSE) for one, other in zip(ours, theirs, strict=True))
    back = transpose_csc(rows.indptr, rows.indices, rows.num_src)

    def gradients():
        by_nodes_and_edges = attend_backward_destinations(rows.indptr, rows.indices, x, scores, ours, gradient)
        by_sources = attend_backward_sources(*back[:2], x, scores, ours, gradient, positions=back.positions)
        return *by_nodes_and_edges, *by_sources

    found = gradients()
    with without_kernels():
        expected = gradients()
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other, **CLOSE)
