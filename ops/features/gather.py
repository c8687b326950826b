"""Gather rows of a feature table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.autograd.graph import increment_version

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_num_threads, as_numpy, is_packed
from headrace.ops.borrowed import check_memory
from headrace.ops.errors import InputError
from headrace.ops.features import on_gpu, torch_rows
from headrace.ops.gpu import device_of, reads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: NumPy's names of the dtypes of most features.
_SPELLED = {torch.float32: np.float32, torch.float16: np.float16, torch.float64: np.float64, torch.int64: np.int64}

#: By bytes, what NumPy has in the place of others; some of torch's (bfloat16) it has not.
_WORDS = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64, 16: np.complex128}


def gather_rows(
    source: Array,
    ids: Array,
    *,
    out: torch.Tensor | None = None,
    places: Array | None = None,
    num_threads: int = 1,
    trusted: bool = False,
) -> torch.Tensor:
    """Copy the rows of `source` with the ids `ids`, on their device: in CPU memory, or on another device.

    Devices other than the CPU use torch's own operations, which check ids late: an id without a row is an error of
    torch there.

    Parameters
    ----------
    source : torch.Tensor or numpy.ndarray
        [num_rows, ...] of any dtype, where `ids` are; for example a memory map. Rows may be strided (a slice of
        columns); a table whose single rows are not contiguous is read through a strided fallback, several times slower.
    ids : torch.Tensor or numpy.ndarray
        int32[n] or int64[n]; duplicates are fine.
    out : torch.Tensor, optional
        [n, ...] contiguous, of the dtype of `source`, written and returned. With `places`, [num_rows_of_out, ...].
    places : torch.Tensor or numpy.ndarray, optional
        int64[n], distinct: where in `out`, which must be given, to put each row. The other rows of `out` stay.
    num_threads : int
        The result does not depend on it.
    trusted : bool
        A promise that all ids and places have rows. A GPU then checks nothing, and the host does not wait; the CPU
        checks anyway.

    Returns
    -------
    torch.Tensor
        `out`, or [n, ...].

    Raises
    ------
    InputError
        If an id or a place has no row, or `source`, `ids`, `out` or `places` have wrong devices, dtypes or shapes.
        Nothing is written then.
    """
    stage = "gather_rows"
    device = device_of(ids)
    if device is not None and reads(source, device):
        return on_gpu.gather(source, ids, out, places, device, stage=stage, trusted=trusted is True)
    if isinstance(ids, torch.Tensor) and not ids.is_cpu:
        return torch_rows.gather(source, ids, out, places, stage=stage)
    rows = as_numpy(ids, "ids", stage=stage, dtypes=ID_DTYPES)
    num_threads = as_num_threads(num_threads, stage=stage)
    if isinstance(source, torch.Tensor) and source.layout == torch.strided:
        source = source.resolve_conj().resolve_neg()  # lazy views, whose memory is not what they stand for
    shape, row_dtype = _shape_and_dtype(source, stage)
    targets = None if places is None else as_numpy(places, "places", stage=stage)
    if targets is not None and out is None:
        message = f"{stage}: places are those of rows of out; give out too"
        raise InputError(message)
    num_out = len(out) if targets is not None and isinstance(out, torch.Tensor) and out.ndim else rows.size
    given, wanted = out, (num_out, *shape[1:])
    out = empty_rows(wanted, row_dtype) if out is None else output_rows(out, wanted, row_dtype, stage)
    item_bytes = out.element_size()
    if isinstance(source, torch.Tensor):
        check_memory(source, "source", stage)
        address, strides, unit = source.data_ptr(), source.stride(), 1
        if not address and source.numel():
            message = (
                f"{stage}: expected a tensor with memory of its own, got a {type(source).__name__} around another one; "
                "pass that one"
            )
            raise InputError(message)
    else:
        address, strides, unit = source.__array_interface__["data"][0], source.strides, item_bytes
    row_bytes = math.prod(shape[1:]) * item_bytes
    in_order = isinstance(source, torch.Tensor) and source.is_contiguous()
    if not in_order and not is_packed(shape[1:], strides[1:], unit):
        # Check the ids with the kernel (rows of no bytes), then let the array's own library walk the strides.
        _native.gather_rows(0, shape[0], 0, 0, rows, 0, 1, targets, num_out)
        if targets is not None:
            out.detach()[torch.from_numpy(targets)] = gather_rows(source, rows)
        elif isinstance(source, torch.Tensor):
            return torch.index_select(source.detach(), 0, torch.from_numpy(rows), out=out)
        else:
            np.take(source, rows, axis=0, out=out.detach().numpy(), mode="clip")
    else:
        step = strides[0] * (item_bytes // unit)
        _native.gather_rows(address, shape[0], step, row_bytes, rows, out.data_ptr(), num_threads, targets, num_out)
    if given is not None:
        increment_version(given)  # autograd has not seen the write
    return out


def _shape_and_dtype(source: Array, stage: str) -> tuple[tuple[int, ...], torch.dtype]:
    if isinstance(source, torch.Tensor):
        if not source.is_cpu or source.layout != torch.strided:
            message = (
                f"{stage}: expected source to be a dense CPU tensor, got {source.layout} on {source.device}; "
                "move it with .cpu() or .to_dense()"
            )
            raise InputError(message)
        dtype = source.dtype
    elif isinstance(source, np.ndarray):
        dtype = _torch_dtype(source, stage)
    else:
        message = f"{stage}: expected source to be a CPU tensor or a NumPy array, got {type(source).__name__}"
        raise InputError(message)
    if source.ndim == 0:
        message = f"{stage}: expected source to have a dimension of rows, got a scalar"
        raise InputError(message)
    return tuple(source.shape), dtype


def _torch_dtype(source: NDArray[Any], stage: str) -> torch.dtype:
    try:
        return torch.from_numpy(np.empty(0, source.dtype)).dtype
    except (TypeError, ValueError) as error:
        message = f"{stage}: expected source of a dtype that torch has, got {source.dtype}; convert it with .astype"
        raise InputError(message) from error


def empty_rows(shape: Sequence[int], dtype: torch.dtype, device: torch.device | None = None) -> torch.Tensor:
    """Return an uninitialised tensor; in CPU memory, where it is by default, it comes from the pool.

    Fresh memory from the system would cost more than the rows that are copied into it.
    """
    if device is not None and device.type != "cpu":
        return torch.empty(tuple(shape), dtype=dtype, device=device)
    memory = _native.empty(math.prod(shape) * dtype.itemsize)
    # NumPy shapes it: for a small batch each view by torch takes as long as the pool.
    rows = torch.from_numpy(np.ndarray(shape, _SPELLED.get(dtype) or _WORDS[dtype.itemsize], memory))
    return rows if rows.dtype == dtype else rows.view(dtype)


def output_rows(out: torch.Tensor | None, shape: tuple[int, ...], dtype: torch.dtype, stage: str) -> torch.Tensor:
    """Return `out` if rows of this shape and dtype can be written to it, or a new tensor for them."""
    if out is None:
        return empty_rows(shape, dtype)
    if not isinstance(out, torch.Tensor):
        message = f"{stage}: expected out to be a contiguous CPU tensor {dtype}{list(shape)}, got {type(out).__name__}"
        raise InputError(message)
    plain = out.layout == torch.strided and out.is_contiguous() and not (out.is_neg() or out.is_conj())
    if tuple(out.shape) != shape or out.dtype != dtype or not out.is_cpu or not plain:
        message = (
            f"{stage}: expected out to be a contiguous CPU tensor {dtype}{list(shape)}, "
            f"got {out.dtype}{list(out.shape)} on {out.device}, contiguous and no lazy view: {plain}"
        )
        raise InputError(message)
    return out
