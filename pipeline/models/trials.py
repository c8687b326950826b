"""What trials of layers and of modules between them share: where they run, and comparisons of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headrace.ops.forks import ProcessLock

#: What rows may differ by, of the largest element, in this many units in the last place: kernels may add up in another
#: order.
UNITS = 16

#: The least of these units: that of float32 on GPUs, whose products may have 10 bits (TF32).
_LEAST_UNIT, _LEAST_UNIT_ON_GPUS = 2**-17, 2**-10

_LOCK = ProcessLock()


@contextmanager
def one_trial() -> Iterator[None]:
    """Try a module meanwhile: one at a time, as ranks that are threads share torch's generators, which are put back.

    Nothing is kept for gradients: `torch.utils.checkpoint` counts it, and would miss it when it calls the module again.
    """
    with _LOCK.held(), torch.no_grad():
        yield


def rows_of(out: Any) -> Iterator[Tensor]:
    """Yield the tables of rows that a module returned."""
    if isinstance(out, Tensor):
        if out.is_floating_point() and out.layout == torch.strided and out.dim():
            yield out
    elif isinstance(out, tuple | list | Mapping):
        for one in out.values() if isinstance(out, Mapping) else out:
            yield from rows_of(one)


def least_unit(rows: Tensor) -> float:
    """Return the least unit in the last place that rows of single precision are compared by."""
    return _LEAST_UNIT_ON_GPUS if rows.is_cuda else _LEAST_UNIT


def unit_of(rows: Tensor, module: nn.Module, dtype: torch.dtype | None = None) -> float:
    """Return the unit in the last place of 1, of the least precise numbers that a module may compute rows with.

    Products of `dtype`, by default torch's own, are of another one under torch.autocast.
    """
    ones = torch.ones(1, 1, dtype=dtype, device=rows.device)
    return max(
        torch.finfo(one.dtype).eps for one in (rows, ones @ ones, *module.parameters()) if one.is_floating_point()
    )


def are_alike(expected: Tensor, got: Tensor, unit: float) -> bool:
    """Whether rows differ by no more than `UNITS` of such units."""
    if expected.shape != got.shape:
        return False
    one, other = expected.detach().double(), got.detach().double()  # a module may return what it got
    largest = float(one.nan_to_num(0.0, 0.0, 0.0).abs().max()) if one.numel() else 0.0
    return torch.allclose(one, other, rtol=0.0, atol=UNITS * unit * largest, equal_nan=True)
