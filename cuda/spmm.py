"""Sums, extremes and dot products over edges on a device: twins of ``ops/native/aggregate`` but for attention."""

from __future__ import annotations

from torch import Tensor

from headrace.cuda.edge_rows import EdgeRows
from headrace.cuda.launch import launch


def spmm(
    rows: EdgeRows, x: Tensor, weight: Tensor | None, divisors: Tensor | None, out: Tensor, *, fresh: bool
) -> None:
    """Add up rows of `x`: ``out[i] = (out[i] + sum of weight[e] * x[indices[e]]) / divisors[i]``.

    Parameters
    ----------
    rows
        Good ones, as `check_edge_rows` has found.
    x, out
        float32 or float64, [num_others, width] and [num_rows, width], contiguous as all that is of values.
    weight
        [num_positions, heads] or None; heads divide the width.
    divisors
        [num_rows] or None.
    fresh
        Whether what `out` holds does not count.
    """
    arguments = (*rows.arguments, x, x.shape[1], weight, _heads(weight), out, divisors, fresh)
    launch("spmm", rows.types(x), out.numel(), *arguments, device=out.device)


def spmm_extreme(
    rows: EdgeRows,
    x: Tensor,
    weight: Tensor | None,
    out: Tensor,
    winners: Tensor,
    *,
    largest: bool,
    fresh: bool,
    last: bool,
) -> None:
    """Find the largest or smallest message of each row and column, and where it came from.

    Parameters
    ----------
    rows, x, weight, out
        As for `spmm`.
    winners
        int64, of the shape of `out`: positions, -1 for none so far.
    largest
        Or the smallest.
    fresh
        Whether what `out` and `winners` hold does not count.
    last
        Whether columns without a message become 0.
    """
    arguments = (*rows.arguments, x, x.shape[1], weight, _heads(weight), out, winners, largest, fresh, last)
    launch("spmm_extreme", rows.types(x), out.numel(), *arguments, device=out.device)


def spmm_winners(
    rows: EdgeRows, gradients: Tensor, winners: Tensor, weight: Tensor | None, out: Tensor, *, fresh: bool
) -> None:
    """Add up gradients where edges have won, over transposed rows.

    Parameters
    ----------
    rows, weight, out, fresh
        As for `spmm`.
    gradients, winners
        [num_others, width] of values and of int64.
    """
    arguments = (*rows.arguments, gradients, winners, gradients.shape[1], weight, _heads(weight), out, fresh)
    launch("spmm_winners", rows.types(gradients), out.numel(), *arguments, device=out.device)


def sddmm(rows: EdgeRows, a: Tensor, b: Tensor, out: Tensor, winners: Tensor | None) -> None:
    """Write the dot products of the two rows that edges join, at their positions.

    Parameters
    ----------
    rows
        As for `spmm`.
    a, b
        [num_rows, width] and [num_others, width].
    out
        [num_positions, heads]; heads divide the width.
    winners
        int64[num_rows, width]: columns that another position has won do not count. None: all do.
    """
    heads = out.shape[1]
    arguments = (*rows.arguments, rows.num_edges, a, b, a.shape[1], heads, out)
    products, types = rows.num_edges * heads, rows.types(a)
    if winners is None:
        launch("sddmm", types, 8 * products, *arguments, device=out.device)
    else:
        launch("sddmm_won", types, products, *arguments, winners, device=out.device)


def _heads(weight: Tensor | None) -> int:
    return 1 if weight is None else weight.shape[1]
