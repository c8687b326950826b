"""Sums, means and extremes over shards, with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headrace.ops import Extremes, InputError, Transposed, sddmm, spmm, spmm_extreme
from headrace.ops.aggregate.autograd import divided_by
from headrace.ops.aggregate.differentiable_once import differentiable_once
from headrace.ops.aggregate.extreme import spmm_winners
from headrace.pipeline.models.by_parts.parts import Tables
from headrace.pipeline.models.message_graph import Reduce
from headrace.pipeline.models.sar.rounds import Rounds, described
from headrace.pipeline.models.sar.shard import Shard


class Sum(torch.autograd.Function):
    """The sums of messages ``weight[e] * x[source of e]``, divided by something in the end.

    The backward direction needs rows of `x` only for the gradient of the weights: without it none comes again.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, divisors: Tensor | None, rounds: Rounds) -> Tensor:
        """Add up shard after shard."""
        out = x.new_zeros(rounds.num_dst, *x.shape[1:])

        def visit(shard: Shard, rows: Tables) -> None:
            spmm(
                shard.indptr,
                shard.indices,
                rows[0],
                weight=weight,
                positions=None if weight is None else shard.positions,
                divisors=divisors if shard is rounds.last else None,
                out=out,
                num_threads=torch.get_num_threads(),
            )

        kept = _forward(ctx, "a sum" if divisors is None else "a mean", x, weight, rounds, visit)
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight, divisors, *kept)
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Send the sums over reversed edges to the owners of the sources."""
        x, weight, divisors, *kept = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        if divisors is not None:
            gradient = gradient / divisors.view(-1, *(1 for _ in gradient.shape[1:]))

        def send(back: Transposed, out: Tensor) -> None:
            spmm(
                back.indptr,
                back.indices,
                gradient,
                weight=weight,
                positions=None if weight is None else back.positions,
                out=out,
                num_threads=torch.get_num_threads(),
            )

        return (*_backward(ctx, x, weight, tuple(kept), gradient, send), None, None)


class Extreme(torch.autograd.Function):
    """The largest or smallest messages, column by column.

    Among equal ones the edge wins that stands first in the CSC of the whole graph, whichever shard it is in, and has
    the whole gradient. The winners are kept, so that, as for sums, rows come again only for the gradient of weights.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, largest: bool, rounds: Rounds) -> Tensor:
        """Look at shard after shard."""
        shape = rounds.num_dst, *x.shape[1:]
        infinite = -torch.inf if largest else torch.inf
        found = Extremes(x.new_full(shape, infinite), x.new_full(shape, -1, dtype=torch.int64))

        def visit(shard: Shard, rows: Tables) -> None:
            spmm_extreme(
                shard.indptr,
                shard.indices,
                rows[0],
                largest=largest,
                weight=weight,
                positions=shard.positions,
                state=found,
                last=shard is rounds.last,
                num_threads=torch.get_num_threads(),
            )

        kept = _forward(ctx, "maxima" if largest else "minima", x, weight, rounds, visit)
        winners = found.winners.to(rounds.own.positions.dtype)
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight, winners, *kept)
        return found.values

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Send gradients to the owners of the sources that have won."""
        x, weight, winners, *kept = ctx.saved_tensors
        gradient, winners = gradients[0].contiguous(), winners.long()

        def send(back: Transposed, out: Tensor) -> None:
            spmm_winners(
                back.indptr,
                back.indices,
                gradient,
                winners,
                weight=weight,
                positions=back.positions,
                out=out,
                num_threads=torch.get_num_threads(),
            )

        return (*_backward(ctx, x, weight, tuple(kept), gradient, send, winners), None, None)


def reduced(
    x: Tensor,
    reduce: Reduce,
    weight: Tensor | None,
    divisors: Tensor | None,
    sum_edges: Callable[[Tensor], Tensor],
    rounds: Rounds,
) -> Tensor:
    """Return reduced messages; `ShardedGraph.aggregate` says what they are.

    Parameters
    ----------
    x: [num_src, ...]
        Rows, of no less than float32.
    reduce
        How.
    weight: [num_edges] or [num_edges, heads], optional
        Of the dtype of `x`.
    divisors: [num_dst]
        What means without weights are divided by; None for all else.
    sum_edges
        Adds up values of edges at their destinations.
    rounds
        The edges.

    Raises
    ------
    InputError
        For another `reduce` or another number of rows or weights; nothing is sent then.
    """
    if reduce not in ("sum", "mean", "max", "min"):
        raise InputError(f'aggregate: expected reduce to be "sum", "mean", "max" or "min", got {reduce!r}')
    check_edges(weight, rounds.num_edges, "weight")
    if reduce in ("max", "min"):
        out: Tensor = Extreme.apply(x, weight, reduce == "max", rounds)  # type: ignore[no-untyped-call]
        return out
    total: Tensor = Sum.apply(x, weight, divisors, rounds)  # type: ignore[no-untyped-call]
    if reduce == "mean" and weight is not None:
        total = divided_by(total, sum_edges(weight))
    return total


def check_edges(values: Tensor | None, num_edges: int, name: str) -> None:
    """Refuse values of edges that are not one for each.

    Raises
    ------
    InputError
        With `name`.
    """
    if values is not None and values.shape[:1] != (num_edges,):
        raise InputError(
            f"{name}: expected a row for each of this rank's {num_edges} edges, got {list(values.shape)}; "
            "graph.edge_rows(values) takes them out of a table of all edges"
        )


def _forward(
    ctx: Any, what: str, x: Tensor, weight: Tensor | None, rounds: Rounds, visit: Callable[[Shard, Tables], None]
) -> Tables:
    """Visit all shards; return the rows that are kept for the backward direction."""
    what = what if weight is None else f"{what} with weights"
    ctx.what, ctx.rounds = described(what, ("x", "weight"), ctx.needs_input_grad[:2]), rounds
    return rounds.forward((x,), visit, ctx.what, keep=any(ctx.needs_input_grad))


def _backward(
    ctx: Any,
    x: Tensor | None,
    weight: Tensor | None,
    kept: Tables,
    gradient: Tensor,
    send: Callable[[Transposed, Tensor], None],
    winners: Tensor | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of rows and weights; `send` adds those of a shard's sources to what goes to their owner."""
    by_x = by_weight = None
    if ctx.needs_input_grad[0]:
        by_x = gradient.new_zeros(ctx.rounds.transfer.num_rows, *gradient.shape[1:])
    if ctx.needs_input_grad[1] and weight is not None:
        by_weight = torch.zeros_like(weight, memory_format=torch.contiguous_format)

    def visit(shard: Shard, rows: Tables | None, into: Tables | None) -> None:
        if into is not None:
            send(shard.transposed, into[0])
        if by_weight is not None and rows is not None:
            sddmm(
                shard.indptr,
                shard.indices,
                gradient,
                rows[0],
                heads=None if by_weight.ndim == 1 else by_weight.shape[1],
                positions=shard.positions,
                winners=winners,
                out=by_weight,
                num_threads=torch.get_num_threads(),
            )

    ctx.rounds.backward(None if x is None else (x,), visit, None if by_x is None else (by_x,), kept, ctx.what)
    return by_x, by_weight
