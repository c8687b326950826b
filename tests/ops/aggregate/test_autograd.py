"""Gradients of aggregations against torch's own, of the same law written with one row per edge, in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import (
    AttentionDropout,
    AttentionScores,
    InputError,
    aggregate_with_grad,
    attend_with_grad,
    dropout_mask,
    transpose_csc,
)

from edge_rows import edge_rows
from strategies import keys, thread_counts

pytestmark = pytest.mark.twins

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def drawn(data, *shape):
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**32)))
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def ends_of(rows):
    return torch.arange(rows.num_dst).repeat_interleave(rows.indptr.diff()), rows.indices.long()


def dense_reduce(rows, x, weight, reduce, degrees):
    destinations, sources = ends_of(rows)
    messages = (
        x[sources] if weight is None else x[sources] * (weight if weight.ndim == 2 else weight[:, None])[..., None]
    )
    if reduce in ("sum", "mean"):
        total = x.new_zeros(rows.num_dst, *x.shape[1:]).index_add(0, destinations, messages)
        counts = rows.indptr.diff() if degrees is None else degrees
        return total if reduce == "sum" else total / counts.clamp(min=1).double()[:, None, None]
    found = []
    for row in range(rows.num_dst):
        own = messages[destinations == row]
        found.append((own.max(0) if reduce == "max" else own.min(0)).values if len(own) else x.new_zeros(x.shape[1:]))
    return torch.stack(found) if found else x.new_zeros(0, *x.shape[1:])


@given(
    edge_rows(),
    st.sampled_from(["sum", "mean", "max", "min"]),
    st.sampled_from(["none", "edge", "head"]),
    st.booleans(),
    thread_counts,
    st.data(),
)
def test_gradients_of_reductions(rows, reduce, weights, given_degrees, num_threads, data):
    heads = 3
    x = drawn(data, rows.num_src, heads, 4).requires_grad_()
    shape = (rows.num_edges, heads) if weights == "head" else (rows.num_edges,)
    weight = None if weights == "none" else drawn(data, *shape).requires_grad_()
    degrees = torch.arange(1, rows.num_dst + 1) if given_degrees else None
    found = aggregate_with_grad(
        rows.indptr, rows.indices, x, reduce=reduce, weight=weight, degrees=degrees, num_threads=num_threads
    )
    expected = dense_reduce(rows, x, weight, reduce, degrees)
    assert torch.allclose(found, expected, **CLOSE)
    if not rows.num_edges:
        return
    factors = drawn(data, *found.shape)
    inputs = [x] if weight is None else [x, weight]
    ours = torch.autograd.grad((found * factors).sum(), inputs)
    theirs = torch.autograd.grad((expected * factors).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, **CLOSE)


def dense_attention(rows, x, scores):
    destinations, sources = ends_of(rows)
    plain = scores.source[sources] + scores.destination[destinations]
    plain = plain if scores.edge is None else plain + scores.edge
    exps = torch.nn.functional.leaky_relu(plain, scores.slope).exp()
    exps = exps if scores.weight is None else exps * scores.weight[:, None]
    sums = exps.new_zeros(rows.num_dst, scores.heads).index_add(0, destinations, exps)
    attention = exps / sums[destinations]
    if scores.dropout is not None:
        ids = torch.arange(rows.num_edges) if scores.dropout.edge_ids is None else scores.dropout.edge_ids
        mask = dropout_mask(scores.dropout.key, ids, scores.heads, scores.dropout.probability)
        attention = attention * mask / (1 - scores.dropout.probability)
    return x.new_zeros(rows.num_dst, *x.shape[1:]).index_add(0, destinations, attention[..., None] * x[sources])


@given(edge_rows(), st.integers(1, 5), st.booleans(), st.booleans(), st.booleans(), keys, thread_counts, st.data())
def test_gradients_of_attention(rows, heads, with_edges, with_weights, with_dropout, key, num_threads, data):
    x = drawn(data, rows.num_src, heads, 3).requires_grad_()
    source, destination = (drawn(data, count, heads).requires_grad_() for count in (rows.num_src, rows.num_dst))
    edge = drawn(data, rows.num_edges, heads).requires_grad_() if with_edges else None
    weight = drawn(data, rows.num_edges).abs() + 0.1 if with_weights else None
    ids = torch.arange(rows.num_edges).flip(0) * 7
    dropout = AttentionDropout(0.4, key, ids) if with_dropout else None
    scores = AttentionScores(source, destination, edge, weight, 0.2, dropout)
    found = attend_with_grad(rows.indptr, rows.indices, x, scores, num_threads=num_threads)
    expected = dense_attention(rows, x, scores)
    assert torch.allclose(found, expected, **CLOSE)
    if not rows.num_edges:
        return
    factors = drawn(data, *found.shape)
    inputs = [one for one in (x, source, destination, edge) if one is not None]
    ours = torch.autograd.grad((found * factors).sum(), inputs)
    theirs = torch.autograd.grad((expected * factors).sum(), inputs)
    assert all(torch.allclose(one, other, **CLOSE) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("reduce", ["sum", "max"])
def test_what_is_not_needed_is_not_computed(reduce):
    """Rows that need no gradient, as features do, ask for no transposed block."""
    weight = torch.ones(2, requires_grad=True)

    def never():
        raise AssertionError

    out = aggregate_with_grad(
        torch.tensor([0, 2]), torch.tensor([0, 1]), torch.ones(2, 3), reduce=reduce, weight=weight, transpose=never
    )
    out.sum().backward()
    assert weight.grad.sum() == (6 if reduce == "sum" else 3)


@pytest.mark.cpu  # what is kept is on the CPU
def test_the_transposed_block_may_be_kept():
    indptr, indices = torch.tensor([0, 2]), torch.tensor([0, 1])
    kept = transpose_csc(indptr, indices, 2)
    calls = []
    x = torch.ones(2, 3, requires_grad=True)
    for _ in range(2):
        out = aggregate_with_grad(indptr, indices, x, transpose=lambda: calls.append(1) or kept)
        out.sum().backward()
    assert len(calls) == 2
    assert torch.equal(x.grad, torch.full((2, 3), 2.0))


def test_is_differentiable_once():
    x = torch.ones(2, 3, requires_grad=True)
    scores = AttentionScores(torch.ones(2, 3), torch.ones(1, 3))
    for out in (
        aggregate_with_grad(torch.tensor([0, 2]), torch.tensor([0, 1]), x),
        aggregate_with_grad(torch.tensor([0, 2]), torch.tensor([0, 1]), x, reduce="max"),
        attend_with_grad(torch.tensor([0, 2]), torch.tensor([0, 1]), x, scores),
    ):
        for loss in ((out * out).sum(), out.sum()):  # the gradient of the second has no gradient itself
            with pytest.raises(InputError, match="second derivatives are not supported"):
                torch.autograd.grad(loss, x, create_graph=True, retain_graph=True)


@pytest.mark.cpu  # what is kept elsewhere is a copy, which nobody writes
@pytest.mark.parametrize("written", ["weight", "ids"])
def test_arrays_of_attention_that_are_written_before_the_backward_pass_are_refused(written):
    arrays = {"weight": torch.ones(2), "ids": torch.tensor([4, 5])}
    x = torch.ones(2, 1, 3, requires_grad=True)
    dropout = AttentionDropout(0.5, 7, arrays["ids"])
    scores = AttentionScores(torch.ones(2, 1), torch.ones(1, 1), None, arrays["weight"], 0.2, dropout)
    out = attend_with_grad(torch.tensor([0, 2]), torch.tensor([0, 1]), x, scores)
    arrays[written] += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_refuses_other_reductions():
    with pytest.raises(InputError, match='reduce to be "sum", "mean", "max" or "min", got \'add\''):
        aggregate_with_grad(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1, 1), reduce="add")
    with pytest.raises(InputError, match="scores to be AttentionScores"):
        attend_with_grad(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1, 1), None)


@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16])
def test_errors_name_the_dtypes_that_were_given(narrow):
    indptr, indices, x = torch.tensor([0, 2]), torch.tensor([0, 1]), torch.ones(2, 1, 3, dtype=narrow)
    expected = f"to be of {narrow} on cpu, as the rows are, got torch.float64 on cpu; convert it"
    with pytest.raises(InputError, match=f"aggregate_with_grad: expected weight {expected}"):
        aggregate_with_grad(indptr, indices, x, weight=torch.ones(2, dtype=torch.float64))
    scores = torch.ones(2, 1).to(narrow), torch.ones(1, 1, dtype=torch.float64)
    with pytest.raises(InputError, match=f"attend_with_grad: expected destination {expected}"):
        attend_with_grad(indptr, indices, x, AttentionScores(*scores))
    with pytest.raises(InputError, match=f"weight to be of torch.float64 on cpu, as the rows are, got {narrow}"):
        aggregate_with_grad(indptr, indices, x.double(), weight=torch.ones(2, dtype=narrow))
