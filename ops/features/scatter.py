"""Add rows to those that ids name, the backward direction of gather; and a gather that gradients pass through."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch.autograd.graph import increment_version

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_num_threads, as_numpy
from headrace.ops.errors import InputError
from headrace.ops.features import on_gpu, torch_rows
from headrace.ops.features.gather import gather_rows
from headrace.ops.gpu import device_of, reads

_ADDED_IN_PLACE = {torch.float32: _native.scatter_add_float32, torch.float64: _native.scatter_add_float64}
_ADDED_IN_FLOAT32 = (torch.float16, torch.bfloat16)


def scatter_add_rows(
    out: torch.Tensor, ids: Array, rows: torch.Tensor, *, num_threads: int = 1, trusted: bool = False
) -> torch.Tensor:
    """Add ``rows[i]`` to ``out[ids[i]]`` for every i, in place.

    The rows of one id are added in the order of `rows`, so the result is the same to the last bit for any number of
    threads. No gradient flows through the addition. Devices other than the CPU use torch's own operation, which adds in
    another order and checks ids late.

    Parameters
    ----------
    out : torch.Tensor
        [num_rows, ...] contiguous, of float32, float64, float16 or bfloat16. The half types are summed in float32, with
        a float32 copy of `out`, and rounded once.
    ids : torch.Tensor or numpy.ndarray
        int32[n] or int64[n], duplicates included.
    rows : torch.Tensor
        [n, ...] of the dtype of `out`.
    num_threads : int
        The result does not depend on it.
    trusted : bool
        A promise that all ids have rows. A GPU then checks nothing, and the host does not wait; the CPU checks anyway.

    Returns
    -------
    torch.Tensor
        `out`.

    Raises
    ------
    InputError
        If an id has no row, or `out`, `ids` or `rows` have wrong devices, dtypes or shapes. Nothing is written then.
    """
    stage = "scatter_add_rows"
    for name, tensor in (("out", out), ("rows", rows)):
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            what = tensor.layout if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            message = f"{stage}: expected {name} to be a dense CPU tensor, got {what}"
            raise InputError(message)
    if out.dtype not in (*_ADDED_IN_PLACE, *_ADDED_IN_FLOAT32) or out.ndim == 0:
        message = (
            f"{stage}: expected out to be [num_rows, ...] of a floating point dtype, got {out.dtype}{list(out.shape)}"
        )
        raise InputError(message)
    device = device_of(out)
    if device is not None and not (reads(out, device) and reads(rows, device)):
        device = None
    if device is None and not out.is_cpu:
        return torch_rows.scatter_add(out, ids, rows, stage=stage)
    if not out.is_contiguous():
        message = f"{stage}: expected out to be contiguous, got strides {list(out.stride())}; pass out.contiguous()"
        raise InputError(message)
    places = None if device is not None else as_numpy(ids, "ids", stage=stage, dtypes=ID_DTYPES)
    expected = (len(ids if places is None else places), *out.shape[1:])
    if tuple(rows.shape) != expected or rows.dtype != out.dtype or rows.device != out.device:
        message = (
            f"{stage}: expected rows to be a CPU tensor {out.dtype}{list(expected)}, one row per id, "
            f"got {rows.dtype}{list(rows.shape)} on {rows.device}"
        )
        raise InputError(message)
    values, wide = rows.detach(), out.detach()
    if out.dtype in _ADDED_IN_FLOAT32:
        values, wide = values.float(), wide.float()
    values, wide = _readable(values), _readable(wide)
    if places is None:
        on_gpu.scatter_add(wide, ids, values, stage=stage, trusted=trusted is True)
    else:
        _ADDED_IN_PLACE[wide.dtype](
            wide.data_ptr(),
            out.shape[0],
            math.prod(out.shape[1:]),
            places,
            values.data_ptr(),
            as_num_threads(num_threads, stage=stage),
        )
    if wide.data_ptr() != out.data_ptr():
        out.detach().copy_(wide)
    else:
        increment_version(out)  # the kernel wrote behind autograd's back
    return out


def _readable(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values in memory that kernels can work on: contiguous, aligned, not negated by a flag."""
    plain = tensor.resolve_neg().contiguous()
    return plain if plain.data_ptr() % plain.element_size() == 0 else plain.clone()


def gather_rows_with_grad(source: torch.Tensor, ids: torch.Tensor, *, num_threads: int = 1) -> torch.Tensor:
    """Copy the rows of `source` with the ids `ids`; gradients flow back to `source` by `scatter_add_rows`.

    As ``source[ids]``, with backward sums that are the same bits for any number of threads. Second derivatives are not
    supported.

    Parameters
    ----------
    source : torch.Tensor
        [num_rows, ...] of float32, float64, float16 or bfloat16, for example trainable embeddings.
    ids : torch.Tensor
        int32[n] or int64[n].
    num_threads : int
        The result does not depend on it.

    Raises
    ------
    InputError
        As for `gather_rows`.
    """
    return cast("torch.Tensor", _Gather.apply(source, ids, num_threads))  # type: ignore[no-untyped-call]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, source: torch.Tensor, ids: torch.Tensor, num_threads: int) -> torch.Tensor:
        rows = gather_rows(source, ids, num_threads=num_threads)
        ctx.save_for_backward(ids)
        ctx.shape, ctx.num_threads = source.shape, num_threads
        return rows

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = gradients
        (ids,) = ctx.saved_tensors
        total = torch.zeros(ctx.shape, dtype=gradient.dtype, device=gradient.device)
        # The gather has looked at the ids.
        return scatter_add_rows(total, ids, gradient, num_threads=ctx.num_threads, trusted=True), None, None
