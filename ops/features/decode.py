"""Rows of features as numbers of another dtype: narrow floating ones, or codes with a scale and a zero point."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_num_threads, as_numpy, is_packed
from headrace.ops.borrowed import check_memory
from headrace.ops.errors import InputError
from headrace.ops.features.gather import empty_rows, gather_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: What rows may be decoded to, and what they may be stored as.
FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
CODES = (torch.int8, torch.uint8)

_STAGE = "decode_rows"


def decode_rows(
    source: torch.Tensor,
    dtype: torch.dtype,
    *,
    ids: Array | None = None,
    scale: torch.Tensor | None = None,
    zero_point: torch.Tensor | None = None,
    num_threads: int = 1,
) -> torch.Tensor:
    """Return rows as numbers of a floating dtype: all rows of `source`, or those that `ids` name, in one pass.

    Numbers become float32, which float16, bfloat16 and codes do exactly. With a scale they are then ``(number -
    zero_point) * scale``, both operations rounded to float32. The result is rounded to `dtype`, to the nearest, ties to
    even. The bits are the same on all devices. Devices other than the CPU use torch's own operations.

    Parameters
    ----------
    source : torch.Tensor
        [num_rows, ...] of float16, bfloat16, float32, float64, int8 or uint8. Of a CPU tensor whose single rows are not
        contiguous, or not aligned, rows are gathered first.
    dtype : torch.dtype
        float16, bfloat16, float32 or float64.
    ids : torch.Tensor or numpy.ndarray, optional
        int32[n] or int64[n], where `source` is.
    scale, zero_point : torch.Tensor, optional
        float32 of CPU memory: single numbers, or one for each number of a row, of the shape of a row. The zero point is
        0 by default.
    num_threads : int
        The result does not depend on it.

    Returns
    -------
    torch.Tensor
        [num_rows, ...] or [n, ...], where `source` is.

    Raises
    ------
    InputError
        If an id has no row, or an argument has a wrong dtype or shape.
    """
    if not isinstance(source, torch.Tensor) or source.layout != torch.strided or source.ndim == 0:
        came = f"{source.layout}{list(source.shape)}" if isinstance(source, torch.Tensor) else type(source).__name__
        raise InputError(f"{_STAGE}: expected source to be a dense tensor of rows, got {came}")
    if source.dtype not in (*FLOATING, *CODES):
        raise InputError(
            f"{_STAGE}: expected rows of float16, bfloat16, float32, float64, int8 or uint8, got {source.dtype}"
        )
    if dtype not in FLOATING:
        raise InputError(f"{_STAGE}: expected dtype to be float16, bfloat16, float32 or float64, got {dtype}")
    shape = source.shape[1:]
    scales = _of_row(scale, "scale", shape)
    if scales is None and zero_point is not None:
        raise InputError(f"{_STAGE}: expected a scale with the zero point, got none; pass scale=torch.tensor(1.0)")
    zeros = _of_row(zero_point, "zero_point", shape)
    if scales is not None and zeros is None:
        zeros = torch.zeros(shape, device="cpu")
    if not source.is_cpu:
        return _by_torch(source if ids is None else gather_rows(source, ids), dtype, scales, zeros)
    width, step = math.prod(shape), source.element_size()
    source = source.detach().resolve_neg()
    check_memory(source, "source", _STAGE)
    if source.data_ptr() % step or not is_packed(tuple(shape), source.stride()[1:], 1):
        source = gather_rows(source, torch.arange(len(source), device="cpu") if ids is None else ids)
        ids = None
    wanted = None if ids is None else as_numpy(ids, "ids", stage=_STAGE, dtypes=ID_DTYPES)
    num_rows = len(source)
    out = empty_rows((num_rows if wanted is None else wanted.size, *shape), dtype)
    _native.decode_rows(
        source.data_ptr(),
        num_rows,
        source.stride(0) * step,
        width,
        _name(source.dtype),
        None if scales is None else _as_numpy(scales),
        None if zeros is None else _as_numpy(zeros),
        wanted,
        out.data_ptr(),
        _name(dtype),
        as_num_threads(num_threads, stage=_STAGE),
    )
    return out


def _of_row(numbers: torch.Tensor | None, name: str, shape: torch.Size) -> torch.Tensor | None:
    """Return float32 numbers of the shape of a row."""
    if numbers is None:
        return None
    fits = isinstance(numbers, torch.Tensor) and numbers.dtype == torch.float32 and numbers.is_cpu
    if not fits or tuple(numbers.shape) not in ((), tuple(shape)):
        came = f"{numbers.dtype}{list(numbers.shape)}" if isinstance(numbers, torch.Tensor) else type(numbers).__name__
        raise InputError(f"{_STAGE}: expected {name} to be one float32 in CPU memory, or {list(shape)}, got {came}")
    return numbers.detach().expand(shape)


def _by_torch(
    rows: torch.Tensor, dtype: torch.dtype, scales: torch.Tensor | None, zeros: torch.Tensor | None
) -> torch.Tensor:
    """Do it by operations that each round to float32."""
    numbers = rows.to(torch.float32)
    if scales is not None and zeros is not None:
        numbers = (numbers - zeros.to(rows.device)) * scales.to(rows.device)
    return numbers.to(dtype)


def _as_numpy(numbers: torch.Tensor) -> NDArray[np.float32]:
    return numbers.contiguous().reshape(-1).numpy()


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
