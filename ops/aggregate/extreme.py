"""The largest or smallest message of each row, and the way back to the edges they came from."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.autograd.graph import increment_version

from headrace.ops._arrays import Array
from headrace.ops.aggregate import on_cpu, on_gpu, on_torch
from headrace.ops.aggregate.edges import (
    EdgeRows,
    by_device,
    check_table,
    check_weight,
    check_winners,
    check_written,
    is_readable,
    new_rows,
)
from headrace.ops.errors import InputError


class Extremes(NamedTuple):
    """The largest or smallest messages, and their edges.

    Attributes
    ----------
    values : torch.Tensor
        [num_rows, ...].
    winners : torch.Tensor
        int64[num_rows, ...]: for each column the position of the edge, -1 if there is none.
    """

    values: torch.Tensor
    winners: torch.Tensor


def spmm_extreme(
    indptr: Array,
    indices: Array,
    x: torch.Tensor,
    *,
    largest: bool = True,
    weight: torch.Tensor | None = None,
    positions: Array | None = None,
    state: Extremes | None = None,
    last: bool = True,
    num_threads: int | None = 1,
    trusted: bool = False,
) -> Extremes:
    """Find the largest message of each row, column by column, or the smallest one; 0 without messages.

    Among equal messages the edge of the lowest position wins and gets the whole gradient (torch's ``amax`` divides it).
    NaN wins over all numbers. Therefore the result does not depend on the order of the parts of a row.

    Parameters
    ----------
    indptr, indices, x, weight, num_threads, trusted
        As for `spmm`.
    largest : bool
        Find the largest messages (True) or the smallest.
    positions : torch.Tensor or numpy.ndarray, optional
        As for `spmm`; also the numbers of edges in `winners`. Parts of a row have different positions.
    state : Extremes, optional
        The result of other parts of the rows; written, and returned.
    last : bool
        Whether columns without a message become 0; until then they are infinite.

    Raises
    ------
    InputError
        As for `spmm`.
    """
    rows = EdgeRows(indptr, indices, positions, num_threads, trusted, "spmm_extreme")
    stage = rows.stage
    check_table(x, "x", stage)
    shape = (rows.num_rows, *x.shape[1:])
    if state is not None:
        if not isinstance(state, Extremes):
            message = f"{stage}: expected state to be Extremes, got {type(state).__name__}"
            raise InputError(message)
        check_written(state.values, "values", stage, shape, x)
        check_winners(state.winners, stage, shape, x)
        if not is_readable(state.winners):
            message = f"{stage}: expected winners to be contiguous, got strides {list(state.winners.stride())}"
            raise InputError(message)
    check_weight(weight, x, stage)
    found = state or Extremes(new_rows(shape[0], x), torch.empty(shape, dtype=torch.int64, device=x.device))
    find = by_device(x, on_cpu.spmm_extreme, on_gpu.spmm_extreme, on_torch.spmm_extreme)
    find(rows, x, weight, found, largest=largest, fresh=state is None, last=last)
    if state is not None:
        for part in found:  # one by one, for older torch
            increment_version(part)
    return found


def spmm_winners(
    indptr: Array,
    indices: Array,
    gradients: torch.Tensor,
    winners: torch.Tensor,
    *,
    weight: torch.Tensor | None = None,
    positions: Array | None = None,
    out: torch.Tensor | None = None,
    num_threads: int | None = 1,
    trusted: bool = False,
) -> torch.Tensor:
    """Add up gradients where edges have won: the backward direction of `spmm_extreme`, over a transposed CSC.

    ``out[j] += sum over e in row j of weight[e] * gradients[i] where winners[i] is the position of e``, i = indices[e].

    Parameters
    ----------
    indptr, indices, weight, positions, out, num_threads, trusted
        As for `spmm`; those that `transpose_csc` returns.
    gradients : torch.Tensor
        [num_dst, ...] of float32 or float64.
    winners : torch.Tensor
        int64[num_dst, ...].

    Raises
    ------
    InputError
        As for `spmm`.
    """
    rows = EdgeRows(indptr, indices, positions, num_threads, trusted, "spmm_winners")
    check_table(gradients, "gradients", rows.stage)
    check_winners(winners, rows.stage, tuple(gradients.shape), gradients)
    if out is not None:
        check_written(out, "out", rows.stage, (rows.num_rows, *gradients.shape[1:]), gradients)
    check_weight(weight, gradients, rows.stage)
    result = new_rows(rows.num_rows, gradients) if out is None else out
    add = by_device(gradients, on_cpu.spmm_winners, on_gpu.spmm_winners, on_torch.spmm_winners)
    add(rows, gradients, winners, weight, result, fresh=out is None)
    if out is not None:
        increment_version(out)
    return result
