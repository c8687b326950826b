"""Integers of users, of whatever width: the same numbers in int64, or refused."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import describe, expected

#: What integers may be; torch has the last three from 2.3 on.
_SIGNED = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_UNSIGNED = tuple(getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name))


def is_whole(dtype: torch.dtype) -> bool:
    """Whether a dtype is one of integers."""
    return dtype in _SIGNED or dtype in _UNSIGNED


def as_int64(numbers: Tensor, name: str) -> Tensor:
    """Return integers of any width as int64: the same numbers, never what is left of them.

    Raises
    ------
    InputError
        If they are no integers, or one is 2**63 or more. `name` says which argument it was.
    """
    if numbers.dtype in _SIGNED:
        return numbers.to(torch.int64).resolve_neg()
    if numbers.dtype not in _UNSIGNED:
        raise InputError(f"{expected(name)} to be integers, got {describe(numbers)}")
    found = numbers.to(torch.int64)
    wrapped = (found < 0).reshape(-1)
    if bool(wrapped.any()):
        first = int(found.reshape(-1)[int(wrapped.nonzero()[0])]) + (1 << 64)
        raise InputError(
            f"{expected(name)} to be integers below 2**63, got {first}; number them, or pass them as texts"
        )
    return found
