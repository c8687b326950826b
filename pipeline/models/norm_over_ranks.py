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


def _merged(mean: Tensor, squares: Tensor, count: int, comm: Comm) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, variance and number of all ranks' rows, from mean and sum of squared deviations of each rank's own.

    By the differences of their means (Chan, Golub and LeVeque, 1979): the mean of squares less the square of the mean
    would lose all digits where the mean is far larger than the deviations. The same bits on every rank.
    """
    own = torch.cat([mean, squares, mean.new_tensor([float(count)])])
    ones = [1] * comm.world_size
    all_ranks = comm.all_to_all(own.expand(comm.world_size, -1), ones, ones)
    means, sums, counts = all_ranks.split([len(mean), len(mean), 1], dim=1)  # type: ignore[no-untyped-call]
    total = counts.sum().clamp(min=1.0)
    mean = (means * counts).sum(0) / total
    return mean, (sums + counts * (means - mean).square()).sum(0) / total, total


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, comm: Comm
    ) -> tuple[Tensor, ...]:
        # Deviations from a number near the mean of this rank's rows, which are exact where rows are far from 0. What is
        # left of the mean is small.
        mean = rows.sum(0, dtype=torch.float64) / max(len(rows), 1)
        near = mean.to(rows.dtype)
        out = rows - near
        squares = torch.linalg.vector_norm(out, dim=0, dtype=torch.float64).square()
        squares = (squares - len(rows) * (mean - near).square()).clamp(min=0.0)
        mean, variance, total = _merged(mean, squares, len(rows), comm)
        rest = (mean - near).to(rows.dtype)
        scale = torch.rsqrt(variance + eps).to(rows.dtype)
        out.sub_(rest).mul_(scale)
        if weight is not None:
            out.mul_(weight)
        if bias is not None:
            out.add_(bias)
        ctx.comm = comm
        ctx.save_for_backward(rows, weight, near, rest, scale, total)
        ctx.mark_non_differentiable(mean, variance, total)
        return out, mean, variance, total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, near, rest, scale, total = ctx.saved_tensors
        gradient, width = gradients[0], rows.shape[1]
        normalised = (rows - near).sub_(rest).mul_(scale)
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
