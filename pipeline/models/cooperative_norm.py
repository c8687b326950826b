"""Batch normalisation over the rows of all ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from headrace.ops.errors import InputError
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.models.replace_modules import replace_modules
from headrace.pipeline.models.running_batch import RUNNING


class CooperativeBatchNorm(nn.BatchNorm1d):
    """`nn.BatchNorm1d` whose statistics are those of all ranks' rows together.

    Each node of a layer is in one rank, so mean and variance are those of one process, for any number of ranks, and
    so are the running estimates. One collective in each direction. In evaluation, and outside cooperative batches, it
    is `nn.BatchNorm1d`.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the base class
        """Normalise rows, [num_rows, num_features]."""
        running = RUNNING.get()
        comm = None if running is None else running.comm
        if comm is None or not (self.training or not self.track_running_stats):
            return super().forward(input)
        if running is not None and not running.each_once:
            raise InputError(
                "cooperative: batch normalisation of input rows, or inside a layer, would count a node once for each "
                "rank that needs it; normalise the features beforehand, and hidden rows between layers"
            )
        if input.dim() != 2:
            raise InputError(
                f"cooperative: batch normalisation expects [num_rows, num_features], got {list(input.shape)}"
            )
        rows = input.double()  # the variance is a difference of large sums
        count = rows.new_tensor([float(len(rows))])
        sums: Tensor = _AllReduce.apply(torch.cat([rows.sum(0), rows.square().sum(0), count]), comm)  # type: ignore[no-untyped-call]
        width = input.shape[1]
        total = sums[-1].clamp(min=1.0)
        mean = sums[:width] / total
        variance = (sums[width:-1] / total - mean.square()).clamp(min=0.0)
        self._track(mean.detach(), variance.detach(), total.detach())
        normalised = ((rows - mean) * torch.rsqrt(variance + self.eps)).to(input.dtype)
        if self.weight is None:
            return normalised
        return normalised * self.weight + self.bias

    def _track(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Move the running estimates, the variance being the unbiased one, as `nn.BatchNorm1d` does."""
        if not self.training or self.running_mean is None or self.running_var is None:
            return
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        momentum = self.momentum
        if momentum is None:
            assert self.num_batches_tracked is not None  # made together with the running mean
            momentum = 1.0 / float(self.num_batches_tracked)
        unbiased = variance * count / (count - 1).clamp(min=1.0)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)


def convert_batch_norm(model: nn.Module) -> nn.Module:
    """Replace every `nn.BatchNorm1d` of a model, in place, by one over the rows of all ranks; return the model.

    Parameters, running estimates and the mode are those of the module replaced.
    """
    return replace_modules(model, nn.BatchNorm1d, _converted)


def _converted(model: nn.BatchNorm1d) -> nn.Module:
    converted = CooperativeBatchNorm(
        model.num_features, model.eps, model.momentum, model.affine, model.track_running_stats
    )
    converted.weight, converted.bias = model.weight, model.bias
    converted.running_mean, converted.running_var = model.running_mean, model.running_var
    converted.num_batches_tracked = model.num_batches_tracked
    converted.training = model.training
    return converted


class _AllReduce(torch.autograd.Function):
    """The sum over ranks; its gradient is the sum of the gradients over ranks."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, comm: Comm) -> Tensor:
        ctx.comm = comm
        return comm.all_reduce_sum(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return ctx.comm.all_reduce_sum(gradient), None
