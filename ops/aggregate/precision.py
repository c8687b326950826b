"""Rows of half precision: kernels compute in single precision, as torch's own sparse functions do under autocast."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

import torch

from headrace.ops.errors import InputError

Maybe = TypeVar("Maybe", torch.Tensor, torch.Tensor | None)

#: What kernels do not take as it is.
_NARROW = (torch.bfloat16, torch.float16)


def widened(x: Maybe) -> Maybe:
    """Return a tensor that autocast has made narrow in float32, and anything else as it is; gradients flow back.

    It is what ``torch.amp.custom_fwd(cast_inputs=torch.float32)`` does, for any device. Outside of autocast narrow rows
    stay: `in_single` is for what is summed there, and the result is as narrow as they are.
    """
    if isinstance(x, torch.Tensor) and x.dtype in _NARROW and _casts(x.device.type):
        return x.float()
    return x


def dtype_of_sums(x: torch.Tensor) -> torch.dtype:
    """Return the dtype in which rows are added up: that of `in_single`."""
    return torch.float32 if x.dtype in _NARROW else x.dtype


def in_single(x: Maybe) -> Maybe:
    """Return float16 and bfloat16 in float32, where sums and degrees are exact enough, and anything else as it is."""
    return x.float() if isinstance(x, torch.Tensor) and x.dtype in _NARROW else x


def check_narrow(stage: str, x: Any, **others: Any) -> None:
    """Check tensors that go with rows before they are in float32, so that an error names the dtypes that were given.

    Raises
    ------
    InputError
        For a tensor that is of another dtype than rows in float32, where one of the two is narrow.
    """
    for name, value in others.items():
        if not isinstance(x, torch.Tensor) or not isinstance(value, torch.Tensor):
            continue
        if dtype_of_sums(value) != dtype_of_sums(x) and (x.dtype in _NARROW or value.dtype in _NARROW):
            message = (
                f"{stage}: expected {name} to be of {x.dtype} on {x.device}, as the rows are, got {value.dtype} on "
                f"{value.device}; convert it"
            )
            raise InputError(message)


def as_narrow_as(out: torch.Tensor, x: Any) -> torch.Tensor:
    """Return what was computed in float32 of float16 or bfloat16 in their dtype; elsewhere it has that already."""
    return out.to(x.dtype) if out.dtype != x.dtype else out


def casting_as_now(device: str) -> Callable[[], AbstractContextManager[Any]]:
    """Return what makes contexts in which autocast does what it does now, for functions that are called again later.

    Narrow copies of parameters are made anew in each: one of those that autocast keeps could be from before, or be made
    without gradients and then be taken where they are wanted.
    """
    try:
        return partial(torch.autocast, device, _narrow_dtype(device), enabled=_casts(device), cache_enabled=False)
    except RuntimeError:  # of devices that autocast does not know
        return nullcontext


def autocast_of(device: str) -> torch.dtype | None:
    """Return the dtype that autocast has for a kind of device, or None where it does nothing."""
    return _narrow_dtype(device) if _casts(device) else None


def _narrow_dtype(device: str) -> torch.dtype:
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(device)
    return torch.get_autocast_cpu_dtype() if device == "cpu" else torch.get_autocast_gpu_dtype()  # before torch 2.4


def _casts(device: str) -> bool:
    try:
        return torch.is_autocast_enabled(device)
    except TypeError:  # before torch 2.4
        return torch.is_autocast_cpu_enabled() if device == "cpu" else torch.is_autocast_enabled()
    except RuntimeError:  # of devices that autocast does not know
        return False
