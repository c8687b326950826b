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
    """Add up the rows of `x` that the edges of each row lead to, edge after edge.

    ``out[i] = (out[i] + sum over e in row i of weight[e] * x[indices[e]]) / divisors[i]``. The same bits for any number
    of threads and on a GPU: every row is summed in the order of its edges. A row may come in several calls, parts of
    its edges in each, with `divisors` in the last one alone. No gradient flows through it (`aggregate_with_grad`). NaN
    and infinity spread as in additions. A device without kernels, as a GPU is without CuPy, adds by torch's operations,
    in an order of its own.

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
        int32[num_edges] or int64[num_edges], where each edge stands in `weight`, as `transpose_csc` returns it.
        Default: edge e at e.
    divisors : torch.Tensor, optional
        [num_rows] of the dtype of `x`: what rows are divided by in the end.
    out : torch.Tensor, optional
        [num_rows, ...] contiguous, added to and returned. Default: a new one that begins at 0.
    num_threads : int, optional
        None: the cores this process may use. The result does not depend on it.
    trusted : bool
        A promise that rows of edges are good, as those of an earlier call are. A GPU then does not look, and nobody
        waits for it; the CPU looks anyway.

    Raises
    ------
    GraphError
        For rows of edges that are none. Nothing is written then.
    FeatureError
        For tensors of other shapes, dtypes or devices.

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
    """Return the dot product of the two rows that each edge joins: what a weight's gradient is.

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
        int64[num_rows, ...]: the columns of a row that another position has won do not count (`spmm_extreme`).
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
