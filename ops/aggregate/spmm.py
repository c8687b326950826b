"""Sums of messages, and the dot product of each edge, which is the gradient of its weight."""

from __future__ import annotations

import torch
from torch.autograd.graph import increment_version

from headrace.ops._arrays import Array
from headrace.ops.aggregate import on_cpu, on_gpu, on_torch
from headrace.ops.aggregate.edges import (
    EdgeRows,
    by_device,
    check_shape,
    check_table,
    check_weight,
    check_winners,
    check_written,
    new_rows,
)
from headrace.ops.errors import InputError


def spmm(
    indptr: Array,
    indices: Array,
    x: torch.Tensor,
    *,
    weight: torch.Tensor | None = None,
    positions: Array | None = None,
    divisors: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    num_threads: int | None = 1,
    trusted: bool = False,
) -> torch.Tensor:
    """Sum, for each row, the rows of `x` of its edges, edge by edge.

    ``out[i] = (out[i] + sum over e in row i of weight[e] * x[indices[e]]) / divisors[i]``. The result is the same bits
    for any number of threads and on a GPU: every row is summed in the order of its edges. The edges of a row may be
    divided over several calls, with `divisors` only in the last one. No gradient flows through it
    (`aggregate_with_grad`). NaN and infinity spread as in additions. A device without kernels, such as a GPU without
    CuPy, uses torch's operations, which add in another order.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_rows + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges], rows of `x`.
    x : torch.Tensor
        [num_others, ...] of float32 or float64.
    weight : torch.Tensor, optional
        [num_positions], or [num_positions, heads] where rows of `x` are [heads, ...]. Default: 1.
    positions : torch.Tensor or numpy.ndarray, optional
        int32[num_edges] or int64[num_edges], the position of each edge in `weight`, as `transpose_csc` returns it.
        Default: e for edge e.
    divisors : torch.Tensor, optional
        [num_rows] with the dtype of `x`: the final divisors of rows.
    out : torch.Tensor, optional
        [num_rows, ...] contiguous; the sums are added to it, and it is returned. Default: new zeros.
    num_threads : int, optional
        None: the cores this process may use. The result does not depend on it.
    trusted : bool
        A promise that rows of edges are valid, for example after an earlier call. A GPU then checks nothing, and the
        host does not wait; the CPU checks anyway.

    Raises
    ------
    InputError
        For invalid rows of edges. Nothing is written then.
        For tensors of wrong shapes, dtypes or devices.

    Examples
    --------
    >>> import torch
    >>> from headrace import ops
    >>> x = torch.tensor([[1.0], [2.0], [4.0]])
    >>> ops.spmm(torch.tensor([0, 2, 3]), torch.tensor([1, 2, 0]), x).tolist()
    [[6.0], [1.0]]
    """
    rows = EdgeRows(indptr, indices, positions, num_threads, trusted, "spmm")
    check_table(x, "x", rows.stage)
    shape = (rows.num_rows, *x.shape[1:])
    if out is not None:
        check_written(out, "out", rows.stage, shape, x)
        if x.numel() and out.data_ptr() == x.data_ptr():
            message = f"{rows.stage}: expected out not to be x, whose rows are read while it is written"
            raise InputError(message)
    if divisors is not None:
        check_shape(divisors, "divisors", rows.stage, shape[:1], x)
    check_weight(weight, x, rows.stage)
    result = new_rows(rows.num_rows, x) if out is None else out
    by_device(x, on_cpu.spmm, on_gpu.spmm, on_torch.spmm)(rows, x, weight, divisors, result, fresh=out is None)
    if out is not None:
        increment_version(out)  # autograd has not seen the write
    return result


def sddmm(
    indptr: Array,
    indices: Array,
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    heads: int | None = None,
    positions: Array | None = None,
    winners: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    num_threads: int | None = 1,
    trusted: bool = False,
) -> torch.Tensor:
    """Return the dot product of the two rows of each edge, which is the gradient of its weight.

    Parameters
    ----------
    indptr, indices, positions, num_threads, trusted
        As for `spmm`; no position twice.
    a : torch.Tensor
        [num_rows, ...] of float32 or float64.
    b : torch.Tensor
        [num_others, ...] of the same dtype and row shape.
    heads : int, optional
        Rows are [heads, ...], and there is a product for each head.
    winners : torch.Tensor, optional
        int64[num_rows, ...]: columns of a row with another winner are ignored (`spmm_extreme`).
    out : torch.Tensor, optional
        [num_positions] or [num_positions, heads], contiguous, written at the positions of the edges and returned.
        Default: a new one, of as many positions as edges.

    Raises
    ------
    InputError
        As for `spmm`.
    """
    rows = EdgeRows(indptr, indices, positions, num_threads, trusted, "sddmm")
    stage = rows.stage
    check_table(a, "a", stage, rows=rows.num_rows)
    check_table(b, "b", stage, like=a)
    if a.shape[1:] != b.shape[1:] or (heads is not None and (a.ndim < 2 or a.shape[1] != heads or heads < 1)):
        message = f"{stage}: expected rows of one shape, [heads = {heads}, ...], got {list(a.shape)}, {list(b.shape)}"
        raise InputError(message)
    shape: tuple[int, ...] = (len(indices),) if heads is None else (len(indices), heads)
    if winners is not None:
        check_winners(winners, stage, tuple(a.shape), a)
    if out is not None:
        check_written(out, "out", stage, (len(out), *shape[1:]), a)
    result = torch.empty(shape, dtype=a.dtype, device=a.device) if out is None else out
    by_device(a, on_cpu.sddmm, on_gpu.sddmm, on_torch.sddmm)(rows, a, b, winners, result)
    if out is not None:
        increment_version(out)
    return result
