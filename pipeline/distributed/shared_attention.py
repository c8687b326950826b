"""Attention over edges that ranks share: parts of a softmax by each rank, merged by the masters of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops import Attended, AttentionDropout, AttentionScores
from headrace.ops import attend as attend_here
from headrace.ops.aggregate.attention import attend_backward_destinations, attend_backward_sources
from headrace.ops.aggregate.differentiable_once import differentiable_once
from headrace.pipeline.distributed.mirrors import Mirrors, to_masters, to_mirrors
from headrace.pipeline.distributed.shared_aggregation import merged_sum

if TYPE_CHECKING:
    from headrace.pipeline.distributed.shared_block import SharedBlock


def attend(
    block: SharedBlock,
    rows: Tensor,
    source_scores: Tensor,
    destination_scores: Tensor,
    edge_scores: Tensor | None,
    slope: float,
    dropout: float,
    key: int,
) -> Tensor:
    """Attend, as `SharedBlock.attend` does; rows are [num_src, heads, columns]."""
    dropped = AttentionDropout.of(dropout, key, block.edge_ids)
    out: Tensor = _Attend.apply(rows, source_scores, destination_scores, edge_scores, block, slope, dropped)  # type: ignore[no-untyped-call]
    return out


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        source_scores: Tensor,
        destination_scores: Tensor,
        edge_scores: Tensor | None,
        block: SharedBlock,
        slope: float,
        dropout: AttentionDropout | None,
    ) -> Tensor:
        comm, edges = block.comm, block.edges
        comm.at(block.batch)
        # A source's scores are one more column of its rows.
        table = torch.cat([rows, source_scores[..., None]], 2)
        sources, destinations = block.sources, block.destinations
        received, destination = to_mirrors(
            comm, (sources, sources.pick(table)), (destinations, destinations.pick(destination_scores))
        )
        x, source = received[..., :-1].contiguous(), received[..., -1].contiguous()
        scores = AttentionScores(source, destination, edge_scores, None, slope, dropout)
        found = attend_here(edges.indptr, edges.indices, x, scores, last=False, num_threads=torch.get_num_threads())
        part = torch.cat([found.out, found.largest[..., None], found.sums[..., None]], 2)
        (parts,) = to_masters(comm, (destinations, part))
        merged = _merged(destinations, parts, block.num_dst)
        ctx.block, ctx.slope, ctx.dropout = block, slope, dropout
        ctx.save_for_backward(x, source, destination, edge_scores, *merged)
        return merged.out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        block: SharedBlock = ctx.block
        comm, edges, threads = block.comm, block.edges, torch.get_num_threads()
        x, source, destination, edge_scores, out, largest, sums = ctx.saved_tensors
        comm.at(block.batch)
        # Of a destination's output mirrors need its product with the gradient alone, which is a column: rows below get
        # one more, in which that product is the whole product of output and gradient.
        shares = (gradients[0] * out).sum(2)
        table = torch.cat([gradients[0], *(one[..., None] for one in (shares, largest, sums))], 2)
        (came,) = to_mirrors(comm, (block.destinations, block.destinations.pick(table)))
        gradient = torch.cat([came[..., :-3], torch.ones_like(came[..., :1])], 2)
        output = torch.cat([torch.zeros_like(came[..., :-3]), came[..., -3:-2]], 2)
        attended = Attended(output, came[..., -2].contiguous(), came[..., -1].contiguous())
        wider = torch.cat([x, x.new_zeros((*x.shape[:2], 1))], 2)
        scores = AttentionScores(source, destination, edge_scores, None, ctx.slope, ctx.dropout)
        back = edges.transposed
        by_source, by_rows = attend_backward_sources(
            back.indptr, back.indices, wider, scores, attended, gradient, positions=back.positions, num_threads=threads
        )
        by_destination, by_edge = attend_backward_destinations(
            edges.indptr, edges.indices, wider, scores, attended, gradient, num_threads=threads
        )
        by_rows[..., -1] = by_source
        to_sources, to_destinations = to_masters(comm, (block.sources, by_rows), (block.destinations, by_destination))
        of_sources = merged_sum(block.sources, to_sources, block.num_src)
        of_destinations = merged_sum(block.destinations, to_destinations, block.num_dst)
        return of_sources[..., :-1], of_sources[..., -1], of_destinations, by_edge, None, None, None


def _merged(mirrors: Mirrors, parts: Tensor, num_rows: int) -> Attended:
    """Put parts of softmaxes together, each [sums of rows, largest score, sum of exponentials] of a node and head."""
    before = parts[..., -2]
    largest = before.new_full((num_rows, before.shape[1]), -torch.inf)
    at = mirrors.rows[:, None].expand(before.shape)
    largest.scatter_reduce_(0, at, before, "amax")
    # A part of which all scores are -inf holds zeros.
    factor = torch.where(before == -torch.inf, 1, (before - largest[mirrors.rows]).exp())
    added = torch.cat([parts[..., :-2], parts[..., -1:]], 2) * factor[..., None]
    together = merged_sum(mirrors, added, num_rows)
    sums = together[..., -1].contiguous()
    out = together[..., :-1] / torch.where(sums == 0, 1, sums)[..., None]
    return Attended(out, largest, sums)
