"""Sums of messages, and the dot product of each edge, which is the gradient of its weight."""

from __future__ import annotations

import torch
from torch.autograd.graph import increment_version

from headrace.ops import _native
from headrace.ops._arrays import Array
from headrace.ops.aggregate import on_gpu, on_torch
from headrace.ops.aggregate.edges import (
    as_edges,
    check_shape,
    check_table,
    check_weight,
    check_winners,
    check_written,
    count_rows,
    new_rows,
    table,
    vector,
)
from headrace.ops.errors import FeatureError
from headrace.ops.gpu import kernels_for


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
    GraphError
        For invalid rows of edges. Nothing is written then.
    FeatureError
        For tensors of wrong shapes, dtypes or devices.

    Examples
    --------
    >>> import torch
    >>> from headrace import ops
    >>> x = torch.tensor([[1.0], [2.0], [4.0]])
    >>> ops.spmm(torch.tensor([0, 2, 3]), torch.tensor([1, 2, 0]), x).tolist()
    [[6.0], [1.0]]
    """
    stage = "spmm"
    check_table(x, "x", stage)
    num_rows = count_rows(indptr, stage)
    if out is not None:
        check_written(out, "out", stage, (num_rows, *x.shape[1:]), x)
        if x.numel() and out.data_ptr() == x.data_ptr():
            message = f"{stage}: expected out not to be x, whose rows are read while it is written"
            raise FeatureError(message)
    if divisors is not None:
        check_shape(divisors, "divisors", stage, (num_rows,), x)
    weight = None if weight is None else check_weight(weight, x, stage)
    device, fresh = kernels_for(x), out is None
    if device is None and not x.is_cpu:
        return on_torch.spmm(indptr, indices, x, weight, positions, divisors, out)
    result = new_rows(num_rows, x) if out is None else out
    if device is not None:
        on_gpu.spmm(
            indptr, indices, x, weight, positions, divisors, result, device, fresh=fresh, trusted=trusted is True
        )
    else:
        edges = as_edges(indptr, indices, positions, num_threads, stage)
        _native.spmm(
            edges.indptr,
            edges.indices,
            table(x),
            table(result),
            None if weight is None else table(weight),
            edges.positions,
            None if divisors is None else vector(divisors),
            fresh,
            edges.num_threads,
        )
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
    GraphError, FeatureError
        As for `spmm`.
    """
    stage = "sddmm"
    check_table(a, "a", stage, rows=count_rows(indptr, stage))
    check_table(b, "b", stage, like=a)
    if a.shape[1:] != b.shape[1:] or (heads is not None and (a.ndim < 2 or a.shape[1] != heads or heads < 1)):
        message = f"{stage}: expected rows of one shape, [heads = {heads}, ...], got {list(a.shape)}, {list(b.shape)}"
        raise FeatureError(message)
    shape: tuple[int, ...] = (len(indices),) if heads is None else (len(indices), heads)
    if winners is not None:
        check_winners(winners, stage, tuple(a.shape), a)
    if out is not None:
        check_written(out, "out", stage, (len(out), *shape[1:]), a)
    device = kernels_for(a)
    if device is None and not a.is_cpu:
        return on_torch.sddmm(indptr, indices, a, b, heads, positions, winners, out)
    given, out = out, torch.empty(shape, dtype=a.dtype, device=a.device) if out is None else out
    if device is not None:
        on_gpu.sddmm(indptr, indices, a, b, positions, winners, out, device, trusted=trusted is True)
    else:
        edges = as_edges(indptr, indices, positions, num_threads, stage)
        _native.sddmm(
            edges.indptr,
            edges.indices,
            table(a),
            table(b),
            table(out),
            edges.positions,
            None if winners is None else table(winners),
            edges.num_threads,
        )
    if given is not None:
        increment_version(given)
    return out
