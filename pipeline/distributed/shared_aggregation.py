"""Sums, means and extremes over edges that ranks share: reduced by each rank, merged by the masters of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops import scatter_add_rows, sddmm, spmm, spmm_extreme
from headrace.ops.aggregate.differentiable_once import differentiable_once
from headrace.ops.aggregate.extreme import spmm_winners
from headrace.pipeline.distributed.exchange import take_rows
from headrace.pipeline.distributed.mirrors import Mirrors, to_masters, to_mirrors

if TYPE_CHECKING:
    from headrace.ops.aggregate.autograd import Reduce
    from headrace.pipeline.distributed.shared_block import SharedBlock


def aggregate(block: SharedBlock, rows: Tensor, reduce: Reduce, weight: Tensor | None) -> Tensor:
    """Reduce messages of rows [num_src, heads, columns] and weights [num_edges, heads]; see `SharedBlock.aggregate`."""
    if reduce in ("max", "min"):
        out: Tensor = _Extreme.apply(rows, weight, block, reduce == "max")  # type: ignore[no-untyped-call]
        return out
    # The divisors of a mean are sums as well: those of a column of ones, which mirrors add by themselves.
    counted = reduce == "mean"
    sums: Tensor = _Sum.apply(rows, weight, block, counted)  # type: ignore[no-untyped-call]
    if not counted:
        return sums
    divisors = sums[..., -1:]
    return sums[..., :-1] / divisors.masked_fill(divisors == 0, 1)


def merged_sum(mirrors: Mirrors, parts: Tensor, num_rows: int) -> Tensor:
    """Add up what is known of each node, [len(mirrors.rows), ...]: this rank's part, then those of the others."""
    total = parts.new_zeros((num_rows, *parts.shape[1:]))
    return scatter_add_rows(total, mirrors.rows, parts, num_threads=torch.get_num_threads(), trusted=True)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor | None, block: SharedBlock, counted: bool) -> Tensor:
        comm, edges = block.comm, block.edges
        comm.at(block.batch)
        (received,) = to_mirrors(comm, (block.sources, block.sources.pick(rows)))
        if counted:
            received = torch.cat([received, received.new_ones((*received.shape[:2], 1))], 2)
        found = spmm(edges.indptr, edges.indices, received, weight=weight, num_threads=torch.get_num_threads())
        (parts,) = to_masters(comm, (block.destinations, found))
        ctx.block, ctx.counted = block, counted
        needs_rows = weight is not None and ctx.needs_input_grad[1]
        ctx.save_for_backward(received if needs_rows else None, weight)
        return merged_sum(block.destinations, parts, block.num_dst)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        block: SharedBlock = ctx.block
        comm, edges = block.comm, block.edges
        received, weight = ctx.saved_tensors
        comm.at(block.batch)
        counted = ctx.counted and received is not None  # divisors depend on weights alone
        gradient = gradients[0][..., :-1] if ctx.counted and not counted else gradients[0]
        (gradient,) = to_mirrors(comm, (block.destinations, block.destinations.pick(gradient)))
        by_rows = by_weight = None
        if ctx.needs_input_grad[0]:
            by_rows = _back_to_sources(block, gradient[..., :-1] if counted else gradient, weight)
        if received is not None:
            by_weight = sddmm(
                edges.indptr,
                edges.indices,
                gradient,
                received,
                heads=gradient.shape[1],
                num_threads=torch.get_num_threads(),
            )
        return by_rows, by_weight, None, None


def _back_to_sources(
    block: SharedBlock, gradient: Tensor, weight: Tensor | None, winners: Tensor | None = None
) -> Tensor:
    """Sum gradients over the out-edges of each source, or over those that won, and send the sums to the masters."""
    back, gradient = block.edges.transposed, gradient.contiguous()
    threads = torch.get_num_threads()
    if winners is None:
        positions = None if weight is None else back.positions
        found = spmm(back.indptr, back.indices, gradient, weight=weight, positions=positions, num_threads=threads)
    else:
        found = spmm_winners(
            back.indptr,
            back.indices,
            gradient,
            winners,
            weight=weight,
            positions=back.positions,
            num_threads=threads,
        )
    (parts,) = to_masters(block.comm, (block.sources, found))
    return merged_sum(block.sources, parts, block.num_src)


class _Extreme(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor | None, block: SharedBlock, largest: bool) -> Tensor:
        comm, edges, mirrors = block.comm, block.edges, block.destinations
        comm.at(block.batch)
        (received,) = to_mirrors(comm, (block.sources, block.sources.pick(rows)))
        found = spmm_extreme(
            edges.indptr,
            edges.indices,
            received,
            largest=largest,
            weight=weight,
            num_threads=torch.get_num_threads(),
        )
        # Each destination that is mirrored has an edge, so each column has a winner.
        names = take_rows(edges.positions, found.winners.reshape(-1)).view(found.winners.shape)
        values, winners = to_masters(comm, (mirrors, found.values), (mirrors, names))
        out, won = _merged_extremes(mirrors, values, winners, block.num_dst, largest=largest)
        ctx.block = block
        needs_rows = weight is not None and ctx.needs_input_grad[1]
        ctx.save_for_backward(received if needs_rows else None, weight, found.winners, won)
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        block: SharedBlock = ctx.block
        comm, edges, mirrors = block.comm, block.edges, block.destinations
        received, weight, winners, won = ctx.saved_tensors
        comm.at(block.batch)
        # A gradient goes to the rank of the edge that won; the others get 0.
        (gradient,) = to_mirrors(comm, (mirrors, torch.where(won, mirrors.pick(gradients[0]), 0)))
        by_rows = by_weight = None
        if ctx.needs_input_grad[0]:
            by_rows = _back_to_sources(block, gradient, weight, winners)
        if received is not None:
            by_weight = sddmm(
                edges.indptr,
                edges.indices,
                gradient,
                received,
                heads=gradient.shape[1],
                winners=winners.masked_fill(gradient == 0, -1),
                num_threads=torch.get_num_threads(),
            )
        return by_rows, by_weight, None, None


def _merged_extremes(
    mirrors: Mirrors, values: Tensor, winners: Tensor, num_rows: int, *, largest: bool
) -> tuple[Tensor, Tensor]:
    """Return the best of what ranks found, 0 where none found any, and which of the entries it is.

    Of equal ones that of the first edge wins, and NaN wins over numbers, as `spmm_extreme` has it: so it does not
    matter which rank holds an edge.
    """
    shape = (num_rows, *values.shape[1:])
    best, names = values.new_zeros(shape), winners.new_full(shape, -1)
    for start, stop in mirrors.ends:
        at, value, name = mirrors.rows[start:stop], values[start:stop], winners[start:stop]
        held, holder = best[at], names[at]
        better = (value > held if largest else value < held) | (value.isnan() & ~held.isnan())
        alike = (value == held) | (value.isnan() & held.isnan())
        takes = (holder < 0) | better | (alike & (name < holder))
        best[at] = torch.where(takes, value, held)
        names[at] = torch.where(takes, name, holder)
    return best, winners == names[mirrors.rows]
