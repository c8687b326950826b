"""Batch normalisation whose statistics are those of the rows of all ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from headrace.pipeline.distributed.channel import Comm


def norm_over_ranks(norm: nn.BatchNorm1d, rows: Tensor, comm: Comm) -> Tensor:
    """Return what a `nn.BatchNorm1d` in training makes of rows that are spread over ranks, each row in one of them.

    The variance that rows are divided by is the biased one and the running estimate is the unbiased one, as with one
    process. One collective in each direction; beside the rows themselves nothing of their size is kept.

    Parameters
    ----------
    norm
        Whose parameters and running estimates are used.
    rows: [num_rows, num_features]
        There may be none.
    comm
        The channel.
    """
    out, mean, variance, count = _Normalise.apply(rows, norm.weight, norm.bias, norm.eps, comm)  # type: ignore[no-untyped-call]
    _track(norm, mean, variance, count)
    normalised: Tensor = out
    return normalised


def _track(norm: nn.BatchNorm1d, mean: Tensor, variance: Tensor, count: Tensor) -> None:
    """Move the running estimates."""
    if not norm.training or norm.running_mean is None or norm.running_var is None:
        return
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    momentum = norm.momentum
    if momentum is None:
        assert norm.num_batches_tracked is not None  # made together with the running mean
        momentum = 1.0 / float(norm.num_batches_tracked)
    unbiased = variance * count / (count - 1).clamp(min=1.0)
    norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), momentum)
    norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), momentum)


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, comm: Comm
    ) -> tuple[Tensor, ...]:
        width = rows.shape[1]
        # In double precision: the variance is a difference of large sums.
        squares = torch.linalg.vector_norm(rows, dim=0, dtype=torch.float64).square()
        count = squares.new_tensor([float(len(rows))])
        sums = comm.all_reduce_sum(torch.cat([rows.sum(0, dtype=torch.float64), squares, count]))
        total = sums[-1].clamp(min=1.0)
        mean = sums[:width] / total
        variance = (sums[width:-1] / total - mean.square()).clamp(min=0.0)
        scale = torch.rsqrt(variance + eps).to(rows.dtype)
        out = (rows - mean.to(rows.dtype)).mul_(scale)
        if weight is not None:
            out.mul_(weight)
        if bias is not None:
            out.add_(bias)
        ctx.comm = comm
        ctx.save_for_backward(rows, weight, mean.to(rows.dtype), scale, total)
        ctx.mark_non_differentiable(mean, variance, total)
        return out, mean, variance, total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, mean, scale, total = ctx.saved_tensors
        gradient, width = gradients[0], rows.shape[1]
        normalised = (rows - mean).mul_(scale)
        by_bias = gradient.sum(0, dtype=torch.float64)
        by_weight = (gradient * normalised).sum(0, dtype=torch.float64)
        sums = ctx.comm.all_reduce_sum(torch.cat([by_bias, by_weight])) / total
        # What rows change in the mean and in the variance, and so in all other rows.
        by_rows = normalised.mul_(-sums[width:].to(rows.dtype)).add_(gradient).sub_(sums[:width].to(rows.dtype))
        by_rows.mul_(scale if weight is None else scale * weight)
        return (
            by_rows,
            by_weight.to(rows.dtype) if ctx.needs_input_grad[1] else None,
            by_bias.to(rows.dtype) if ctx.needs_input_grad[2] else None,
            None,
            None,
        )
