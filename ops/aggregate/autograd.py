"""Aggregations that gradients pass through, once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias, cast

import torch

from headrace.ops.aggregate.attention import (
    Attended,
    attend,
    attend_backward_destinations,
    attend_backward_sources,
)
from headrace.ops.aggregate.attention_scores import AttentionScores
from headrace.ops.aggregate.compiling import is_compiling, operations
from headrace.ops.aggregate.differentiable_once import differentiable_once
from headrace.ops.aggregate.edges import heads_of
from headrace.ops.aggregate.extreme import Extremes, spmm_extreme, spmm_winners
from headrace.ops.aggregate.precision import as_narrow_as, check_narrow, in_single, widened
from headrace.ops.aggregate.spmm import sddmm, spmm
from headrace.ops.aggregate.way_back import Transpose, WayBack
from headrace.ops.errors import InputError

Reduce: TypeAlias = Literal["sum", "mean", "max", "min"]


def aggregate_with_grad(
    indptr: torch.Tensor,
    indices: torch.Tensor,
    x: torch.Tensor,
    *,
    reduce: Reduce = "sum",
    weight: torch.Tensor | None = None,
    degrees: torch.Tensor | None = None,
    transpose: Transpose | None = None,
    num_threads: int | None = 1,
    trusted: bool = False,
) -> torch.Tensor:
    """Reduce the messages ``weight[e] * x[indices[e]]`` of each row; gradients flow to `x` and `weight`.

    Gradients of `x` are sums over the transposed CSC, in a fixed order: the same bits for any number of threads. Second
    derivatives are not supported. Rows of float16 and bfloat16 are reduced in float32; the result is rounded to their
    dtype, but under ``torch.autocast`` it stays float32.

    Parameters
    ----------
    indptr, indices, x, weight, num_threads, trusted
        As for `spmm`. The backward pass only checks the result of `transpose`, unless that is trusted.
    reduce : {"sum", "mean", "max", "min"}
        A mean is the sum divided by `degrees`; for extremes see `spmm_extreme`.
    degrees : torch.Tensor, optional
        [num_rows], the divisors of means, for example the degrees in the whole graph; 0 counts as 1. Default: the
        number of edges of each row, for any weights.
    transpose : callable, optional
        A function that returns `transpose_csc` of the CSC, for example a stored one.

    Raises
    ------
    InputError
        As for `spmm`.
        For an unknown `reduce`.

    Examples
    --------
    >>> import torch
    >>> from headrace import ops
    >>> x = torch.ones(3, 1, requires_grad=True)
    >>> out = ops.aggregate_with_grad(torch.tensor([0, 2]), torch.tensor([1, 2]), x, reduce="mean")
    >>> out.sum().backward()
    >>> x.grad.tolist()
    [[0.0], [0.5], [0.5]]
    """
    _check_vectors("aggregate_with_grad", indptr=indptr, indices=indices)
    if degrees is not None:
        _check_vectors("aggregate_with_grad", degrees=degrees)
    if not isinstance(reduce, str):
        message = (
            f'aggregate_with_grad: expected reduce to be "sum", "mean", "max" or "min", got {type(reduce).__name__}'
        )
        raise InputError(message)
    check_narrow("aggregate_with_grad", x, weight=weight)
    x = widened(x)
    way_back = WayBack(indptr, indices, len(x), transpose, num_threads, trusted)
    out = _reduced(indptr, indices, in_single(x), in_single(weight), reduce, degrees, way_back)
    return as_narrow_as(out, x)


def _reduced(
    indptr: torch.Tensor,
    indices: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    reduce: Reduce,
    degrees: torch.Tensor | None,
    way_back: WayBack,
) -> torch.Tensor:
    if reduce in ("max", "min"):
        if is_compiling():
            options = reduce == "max", len(indptr) - 1, way_back.trusted
            out = operations().extreme(indptr, indices, x, weight, *options)[0]
        else:
            out = _Extreme.apply(x, weight, indptr, indices, reduce == "max", way_back)  # type: ignore[no-untyped-call]
        return cast("torch.Tensor", out)
    if reduce not in ("sum", "mean"):
        message = f'aggregate_with_grad: expected reduce to be "sum", "mean", "max" or "min", got {reduce!r}'
        raise InputError(message)
    divisors = None
    if reduce == "mean":
        divisors = (indptr.diff() if degrees is None else degrees).detach().to(x.dtype)
        divisors = divisors.masked_fill(divisors == 0, 1)
    if is_compiling():
        sizes = len(indptr) - 1, way_back.trusted
        return cast("torch.Tensor", operations().summed(indptr, indices, x, weight, divisors, *sizes))
    return cast(
        "torch.Tensor",
        _Sum.apply(x, weight, indptr, indices, divisors, way_back),  # type: ignore[no-untyped-call]
    )


def divided_by(total: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
    """Return sums of weighted rows, [num_rows, ...], over the sums of their weights, [num_rows] or [num_rows, heads].

    0 stands for 1.
    """
    sums = sums.masked_fill(sums == 0, 1)
    return total / sums.view(*sums.shape, *(1 for _ in range(total.ndim - sums.ndim)))


def _check_vectors(stage: str, **tensors: object) -> None:
    for name, value in tensors.items():
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.ndim != 1:
            got = f"{value.layout}{list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
            message = f"{stage}: expected {name} to be a dense tensor of one dimension, got {got}"
            raise InputError(message)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        divisors: torch.Tensor | None,
        way_back: WayBack,
    ) -> torch.Tensor:
        ctx.way_back = way_back
        needs_x = weight is not None and ctx.needs_input_grad[1]
        ctx.save_for_backward(x if needs_x else None, weight, indptr, indices, divisors)
        return spmm(indptr, indices, x, weight=weight, divisors=divisors, **way_back.there)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (gradient,) = gradients
        x, weight, indptr, indices, divisors = ctx.saved_tensors
        if divisors is not None:
            gradient = gradient / divisors.view(-1, *(1 for _ in gradient.shape[1:]))
        by_x = by_weight = None
        if ctx.needs_input_grad[0]:
            back = ctx.way_back.transposed()
            by_x = spmm(
                back.indptr,
                back.indices,
                gradient,
                weight=weight,
                positions=None if weight is None else back.positions,
                **ctx.way_back.back,
            )
        if weight is not None and ctx.needs_input_grad[1]:
            by_weight = sddmm(indptr, indices, gradient, x, heads=heads_of(weight), **ctx.way_back.again)
        return by_x, by_weight, None, None, None, None


class _Extreme(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        largest: bool,
        way_back: WayBack,
    ) -> torch.Tensor:
        found: Extremes = spmm_extreme(indptr, indices, x, largest=largest, weight=weight, **way_back.there)
        ctx.way_back = way_back
        needs_x = weight is not None and ctx.needs_input_grad[1]
        ctx.save_for_backward(x if needs_x else None, weight, indptr, indices, found.winners)
        return found.values

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (gradient,) = gradients
        x, weight, indptr, indices, winners = ctx.saved_tensors
        by_x = by_weight = None
        if ctx.needs_input_grad[0]:
            back = ctx.way_back.transposed()
            by_x = spmm_winners(
                back.indptr,
                back.indices,
                gradient,
                winners,
                weight=weight,
                positions=back.positions,
                **ctx.way_back.back,
            )
        if weight is not None and ctx.needs_input_grad[1]:
            heads = heads_of(weight)
            by_weight = sddmm(indptr, indices, gradient, x, heads=heads, winners=winners, **ctx.way_back.again)
        return by_x, by_weight, None, None, None, None


def attend_with_grad(
    indptr: torch.Tensor,
    indices: torch.Tensor,
    x: torch.Tensor,
    scores: AttentionScores,
    *,
    transpose: Transpose | None = None,
    num_threads: int | None = 1,
    trusted: bool = False,
) -> torch.Tensor:
    """Sum rows of `x` by attention; gradients flow to `x` and to all scores, but not to weights.

    As `attend`. For the backward pass it keeps the result and two numbers for each row and head: attention is computed
    again, and dropout replayed. Second derivatives are not supported. Float16 and bfloat16 are computed in float32; the
    result is rounded to the dtype of `x`, but under ``torch.autocast`` it stays float32.

    Parameters
    ----------
    indptr, indices, x, scores, num_threads
        As for `attend`.
    transpose, trusted
        As for `aggregate_with_grad`.

    Raises
    ------
    InputError
        As for `attend`.
    """
    _check_vectors("attend_with_grad", indptr=indptr, indices=indices)
    if not isinstance(scores, AttentionScores):
        message = f"attend_with_grad: expected scores to be AttentionScores, got {type(scores).__name__}"
        raise InputError(message)
    others = {"source": scores.source, "destination": scores.destination, "edge": scores.edge, "weight": scores.weight}
    check_narrow("attend_with_grad", x, **others)
    given = widened(x)
    if is_compiling():
        drops = scores.dropout
        dropped = () if drops is None else (drops.probability, _as_signed(drops.key), drops.edge_ids)
        return attend_compiled(indptr, indices, given, scores, dropped, trusted=trusted)
    x, scores = in_single(given), scores.map(in_single)
    way_back = WayBack(indptr, indices, len(x), transpose, num_threads, trusted)
    out = _Attend.apply(  # type: ignore[no-untyped-call]
        x, scores.source, scores.destination, scores.edge, scores, indptr, indices, way_back
    )
    return as_narrow_as(out, given)


def attend_compiled(
    indptr: torch.Tensor,
    indices: torch.Tensor,
    x: torch.Tensor,
    scores: AttentionScores,
    dropped: tuple[Any, ...],
    *,
    trusted: bool,
) -> torch.Tensor:
    """Return the result of `attend_with_grad` in code that is compiled.

    Parameters
    ----------
    indptr, indices, x, scores, trusted
        As for `attend_with_grad`; ``scores.dropout`` is not read.
    dropped
        Nothing without dropout, otherwise the probability, the key as int64[] and, optionally, the ids of edges.
    """
    given = indptr, indices, in_single(x), scores.map(in_single)
    return as_narrow_as(operations().attended_by(*given, *dropped, trusted=trusted), x)


def _as_signed(key: int) -> torch.Tensor:
    """Return a key of 64 bits as int64."""
    return torch.tensor(key - 2**64 if key >= 2**63 else key, device="cpu")


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        source: torch.Tensor,
        destination: torch.Tensor,
        edge: torch.Tensor | None,
        scores: AttentionScores,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        way_back: WayBack,
    ) -> torch.Tensor:
        attended = attend(indptr, indices, x, scores, **way_back.there)
        ids = None if scores.dropout is None else scores.dropout.edge_ids
        # Torch refuses a backward pass if one of these tensors was written after the forward pass.
        ids = ids if isinstance(ids, torch.Tensor) else None
        ctx.save_for_backward(x, source, destination, edge, scores.weight, ids, indptr, indices, *attended)
        ctx.slope, ctx.dropout, ctx.way_back = scores.slope, scores.dropout, way_back
        return attended.out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (gradient,) = gradients
        x, source, destination, edge, weight, ids, indptr, indices, *state = ctx.saved_tensors
        drops = ctx.dropout if ids is None else replace(ctx.dropout, edge_ids=ids)
        scores, attended = AttentionScores(source, destination, edge, weight, ctx.slope, drops), Attended(*state)
        by_x = by_source = by_destination = by_edge = None
        if any(ctx.needs_input_grad[:2]):
            back = ctx.way_back.transposed()
            by_source, by_x = attend_backward_sources(
                back.indptr,
                back.indices,
                x,
                scores,
                attended,
                gradient,
                positions=back.positions,
                **ctx.way_back.back,
            )
        if any(ctx.needs_input_grad[2:4]):
            by_destination, by_edge = attend_backward_destinations(
                indptr, indices, x, scores, attended, gradient, **ctx.way_back.again
            )
        return by_x, by_source, by_destination, by_edge, None, None, None, None
