"""Attention over shards: an online softmax forward, and attention computed anew backward."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from headrace.ops.aggregate.attention import Attended, attend, attend_backward_destinations, attend_backward_sources
from headrace.ops.aggregate.attention_scores import AttentionDropout, AttentionScores
from headrace.ops.aggregate.differentiable_once import differentiable_once
from headrace.pipeline.models.by_parts.parts import Tables
from headrace.pipeline.models.sar.rounds import Rounds, described
from headrace.pipeline.models.sar.shard import Shard


class Options(NamedTuple):
    """What attention depends on beside tensors with gradients."""

    slope: float
    dropout: AttentionDropout | None


class Attend(torch.autograd.Function):
    """Sums of rows by the softmax of the scores of edges, whose shards come one after the other.

    Kept are the result, and for each destination and head the largest score and the sum of exponentials; nothing of
    edges times heads. Backward, rows and their scores come again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        source: Tensor,
        destination: Tensor,
        edge: Tensor | None,
        options: Options,
        rounds: Rounds,
    ) -> Tensor:
        """Go on from shard to shard with the largest score, the sum and the numerators so far."""
        shape = rounds.num_dst, source.shape[1]
        state = Attended(x.new_zeros(rounds.num_dst, *x.shape[1:]), x.new_full(shape, -torch.inf), x.new_zeros(shape))

        def visit(shard: Shard, rows: Tables) -> None:
            attend(
                shard.indptr,
                shard.indices,
                rows[0],
                AttentionScores(rows[1], destination, edge, None, *options),
                positions=shard.positions,
                state=state,
                last=shard is rounds.last,
                num_threads=torch.get_num_threads(),
            )

        ctx.what = described(
            "attention" if options.dropout is None else f"attention with dropout {options.dropout.probability}",
            ("x", "source_scores", "destination_scores", "edge_scores"),
            ctx.needs_input_grad[:4],
        )
        ctx.rounds, ctx.options = rounds, options
        kept = rounds.forward((x, source), visit, ctx.what, keep=any(ctx.needs_input_grad))
        ctx.save_for_backward(x, source, destination, edge, *state, *kept)
        return state.out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Compute attention anew, shard by shard, from the largest scores and the sums."""
        x, source, destination, edge, *rest = ctx.saved_tensors
        state, kept = Attended(*rest[:3]), tuple(rest[3:])
        gradient = gradients[0].contiguous()
        by_destination = torch.zeros_like(destination, memory_format=torch.contiguous_format)
        by_edge = None if edge is None else torch.zeros_like(edge, memory_format=torch.contiguous_format)

        def visit(shard: Shard, rows: Tables | None, into: Tables | None) -> None:
            assert rows is not None  # they were asked for
            scores = AttentionScores(rows[1], destination, edge, None, *ctx.options)
            threads = torch.get_num_threads()
            if any(ctx.needs_input_grad[2:4]):
                attend_backward_destinations(
                    shard.indptr,
                    shard.indices,
                    rows[0],
                    scores,
                    state,
                    gradient,
                    positions=shard.positions,
                    out=by_destination,
                    edge_out=by_edge,
                    num_threads=threads,
                )
            if into is not None:  # last, as it may be written over the rows
                back = shard.transposed
                attend_backward_sources(
                    back.indptr,
                    back.indices,
                    rows[0],
                    scores,
                    state,
                    gradient,
                    positions=back.positions,
                    out=(into[1], into[0]),
                    num_threads=threads,
                )

        sums = None
        if any(ctx.needs_input_grad[:2]):
            sums = x.new_zeros(x.shape), source.new_zeros(source.shape)
        ctx.rounds.backward((x, source), visit, sums, kept, ctx.what, overwrites=True)
        by_x, by_source = sums or (None, None)
        return by_x, by_source, by_destination, by_edge, None, None
