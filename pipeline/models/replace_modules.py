"""Modules of a model that other ones replace where several ranks run it: batch normalisation and dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from headrace.ops import InputError, dropout_mask
from headrace.ops.aggregate.differentiable_once import differentiable_once
from headrace.pipeline.distributed.channel import Comm

Module = TypeVar("Module", bound=nn.Module)

#: Norms of PyG that look at one row at a time, or that hold a `nn.BatchNorm1d`.
ROW_NORMS = ("BatchNorm", "DiffGroupNorm", "MessageNorm")


def replace_modules(model: nn.Module, kind: type[nn.Module], replacement: Callable[[Any], nn.Module]) -> nn.Module:
    """Replace modules of just this class, in place; return the model, or what replaces it.

    A module that stands in several places is replaced by one module.
    """
    made: dict[nn.Module, nn.Module] = {}

    def replaced(module: nn.Module) -> nn.Module:
        if module not in made:
            made[module] = replacement(module) if type(module) is kind else module
            for name, child in module._modules.items():  # noqa: SLF001 - named_children leaves out repeats
                if child is not None:
                    module._modules[name] = replaced(child)  # noqa: SLF001
        return made[module]

    return replaced(model)


def taken_over(kind: type[Module], old: nn.Module, **more: Any) -> Module:
    """Return a module of another kind with all that a module has: parameters, options, mode and hooks."""
    new = kind.__new__(kind)
    new.__dict__.update(old.__dict__)
    for name, value in more.items():
        setattr(new, name, value)
    return new


def drop_elements(rows: Tensor, key: int, ids: Tensor, probability: float) -> Tensor:
    """Drop elements of rows, [num_rows, ...], by masks of key and id of the row, and scale up the others."""
    width = rows[:1].numel() if len(rows) else 0
    kept = dropout_mask(key, ids.cpu(), width, probability).view(rows.shape).to(rows.device)
    return rows * kept / (1 - probability) if probability < 1 else rows * 0


def check_replaceable(model: nn.Module, caller: str, ours: tuple[type[nn.Module], ...]) -> None:
    """Refuse norms of many rows, and modules that draw, of other kinds than the two that are replaced.

    A subclass may compute anything, so what is exact for its base class need not be so for it.

    Parameters
    ----------
    model
        What is to run on several ranks.
    caller
        Begins the error.
    ours
        What replaces `nn.BatchNorm1d` and `nn.Dropout`, and may be there already.

    Raises
    ------
    InputError
        With the name of the class.
    """
    for module in model.modules():
        kind = type(module)
        if kind in (nn.BatchNorm1d, nn.Dropout, *ours):
            continue
        name = f"{caller}: {kind.__module__}.{kind.__name__}"
        if getattr(module, "allow_single_element", False):
            raise InputError(
                f"{name} with allow_single_element=True would not meet the other ranks where it has one row; leave it "
                "out: rows of all ranks are normalised together"
            )
        if isinstance(module, _BatchNorm) or _is_norm_of_many_rows(module):
            raise InputError(
                f"{name} would look at the rows of one rank alone; use nn.BatchNorm1d, which is computed over all "
                "ranks, or a norm of single rows"
            )
        if draws_by_itself(module):
            raise InputError(
                f"{name} would draw on each rank for itself; use nn.Dropout, whose masks are the same for any number "
                "of ranks, or a module that does not draw"
            )


def draws_by_itself(module: nn.Module) -> bool:
    """Whether a module of torch draws random numbers in training."""
    if isinstance(module, nn.RNNBase):
        return bool(module.dropout > 0 and module.num_layers > 1)
    if isinstance(module, nn.MultiheadAttention):
        return bool(module.dropout > 0)
    return isinstance(module, _DropoutNd | nn.RReLU | nn.FractionalMaxPool2d | nn.FractionalMaxPool3d)


def _is_norm_of_many_rows(module: nn.Module) -> bool:
    kind = type(module)
    if not kind.__module__.startswith("torch_geometric.nn.norm") or kind.__name__ in ROW_NORMS:
        return False
    return kind.__name__ != "LayerNorm" or getattr(module, "mode", "graph") != "node"


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
    @differentiable_once
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
