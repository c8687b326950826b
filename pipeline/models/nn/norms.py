"""Norms over the rows of a batch, which leave padding out: those of PyG, with its parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from headrace.ops.aggregate.precision import in_single
from headrace.ops.errors import InputError
from headrace.pipeline.data import describe
from headrace.pipeline.models.nn.aggregate import Edges, columns, is_block


class BatchNorm(nn.Module):
    """Batch normalisation (arXiv 1502.03167) over the nodes of a batch: ``torch.nn.BatchNorm1d`` without padding.

    PyG's ``BatchNorm(in_channels, eps, momentum)`` with the same parameters and statistics, those of `module`, computes
    the same. Rows that ``plan.pad()`` has added are no part of means, variances and running statistics; their output is
    0. A padded batch with a single real row, which torch refuses, leaves the running statistics as they are.

    Parameters
    ----------
    in_channels
        Columns.
    eps, momentum
        As for ``torch.nn.BatchNorm1d``.

    Raises
    ------
    InputError
        For sizes below 1; when called with a padded block, for `x` that has neither a row for each destination nor one
        for each source, and for a ``SyncBatchNorm`` as `module`.
    """

    def __init__(self, in_channels: int, eps: float = 1e-5, momentum: float | None = 0.1) -> None:
        super().__init__()
        in_channels = columns("BatchNorm", "in_channels", in_channels)
        self.in_channels = in_channels
        self.module = nn.BatchNorm1d(in_channels, eps=eps, momentum=momentum)

    def reset_parameters(self) -> None:
        """Set parameters and running statistics to those of the beginning."""
        self.module.reset_parameters()

    def forward(self, x: Tensor, block: Edges) -> Tensor:
        """Return the normalised rows.

        Parameters
        ----------
        x : [num_dst, in_channels] or [num_src, in_channels]
            The output of a layer on the block, or its input.
        block
            Whose padding is left out.
        """
        mask = _mask("BatchNorm", x, block, self.in_channels)
        module = self.module
        counts = module.training or getattr(module, "running_mean", None) is None
        if mask is None or not counts or not isinstance(module, _BatchNorm):
            return _zeroed(module(x if mask is None else _zeroed(x, mask)), mask)
        if isinstance(module, nn.SyncBatchNorm):
            raise InputError(
                "BatchNorm: expected module to be a torch.nn.BatchNorm1d on a padded block, got a SyncBatchNorm, which "
                "would count padding; leave .pad() out"
            )
        rows = _zeroed(in_single(x), mask)
        count = mask.sum()
        divisor = count.clamp(min=1)
        mean = rows.sum(0) / divisor
        centred = _zeroed(rows - mean, mask)
        variance = centred.square().sum(0) / divisor
        if module.running_mean is not None:
            self._follow(mean.detach(), variance.detach(), count)
        out = centred * (variance + module.eps).rsqrt()
        if module.affine:
            out = out * module.weight + module.bias
        return _zeroed(out, mask).to(x.dtype)

    def _follow(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Update the running statistics, as torch does, by a batch of several rows."""
        module: Any = self.module
        several = count > 1
        module.num_batches_tracked.add_(several)
        rate = 1 / module.num_batches_tracked.clamp(min=1) if module.momentum is None else module.momentum
        unbiased = variance * count / (count - 1).clamp(min=1)
        for statistic, value in (module.running_mean, mean), (module.running_var, unbiased):
            statistic.lerp_(value.to(statistic.dtype), several.to(statistic.dtype) * rate)

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}"


class GraphNorm(nn.Module):
    """Normalisation of a graph (arXiv 2009.03294), whose nodes are those of a batch, without padding.

    PyG's ``GraphNorm(in_channels, eps)`` with the same parameters, ``weight``, ``bias`` and ``mean_scale``, computes
    the same over the rows of one graph. The output of rows that ``plan.pad()`` has added is 0.

    Parameters
    ----------
    in_channels
        Columns.
    eps
        Added to variances.

    Raises
    ------
    InputError
        As for `BatchNorm`.
    """

    def __init__(self, in_channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        in_channels = columns("GraphNorm", "in_channels", in_channels)
        self.in_channels, self.eps = in_channels, eps
        self.weight = nn.Parameter(torch.ones(in_channels))
        self.bias = nn.Parameter(torch.zeros(in_channels))
        self.mean_scale = nn.Parameter(torch.ones(in_channels))

    def reset_parameters(self) -> None:
        """Set the parameters to those of the beginning."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        nn.init.ones_(self.mean_scale)

    def forward(self, x: Tensor, block: Edges) -> Tensor:
        """Return the normalised rows; see `BatchNorm.forward`."""
        mask = _mask("GraphNorm", x, block, self.in_channels)
        rows = _zeroed(in_single(x), mask)
        count = len(rows) if mask is None else mask.sum().clamp(min=1)
        out = _zeroed(rows - rows.sum(0) / count * self.mean_scale, mask)
        deviation = (out.square().sum(0) / count + self.eps).sqrt()
        return _zeroed(self.weight * out / deviation + self.bias, mask).to(x.dtype)

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}"


def _mask(norm: str, x: Tensor, block: Edges, in_channels: int) -> Tensor | None:
    """Return which rows are real; None if all are.

    Raises
    ------
    InputError
        For rows that are neither the sources nor the destinations of the block.
    """
    if not isinstance(x, Tensor) or x.ndim != 2 or x.shape[1] != in_channels:
        raise InputError(f"{norm}: expected x of [rows, {in_channels}], got {describe(x)}; call it as norm(x, block)")
    if not x.is_floating_point():  # the mean of integers would be made an integer again
        raise InputError(f"{norm}: expected x of a floating dtype, got {describe(x)}; pass x.float()")
    real = getattr(block, "_real_sources", None) if is_block(block) else None
    if real is None:
        return None
    if len(x) not in (block.num_src, block.num_dst):
        raise InputError(
            f"{norm}: expected x with a row for each of {block.num_dst} destinations, or of {block.num_src} sources, "
            f"got {len(x)} rows; pass the block of the layer whose output it is"
        )
    mask: Tensor = real[: len(x)]  # destinations are the first sources
    return mask


def _zeroed(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return the rows with 0 for those that are padding."""
    return x if mask is None else torch.where(mask[:, None], x, 0)
