"""Attention over the in-edges of each destination, as in GAT, in one pass that parts of rows can share."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.autograd.graph import increment_version

from headrace.ops import _native
from headrace.ops._arrays import Array
from headrace.ops.aggregate import on_gpu, on_torch
from headrace.ops.aggregate.attention_scores import AttentionDropout, AttentionScores
from headrace.ops.aggregate.edges import (
    Edges,
    as_edges,
    check_shape,
    check_table,
    check_written,
    count_rows,
    new_rows,
    table,
)
from headrace.ops.errors import FeatureError
from headrace.ops.gpu import kernels_for

__all__ = [
    "Attended",
    "AttentionDropout",
    "AttentionScores",
    "attend",
    "attend_backward_destinations",
    "attend_backward_sources",
]


class Attended(NamedTuple):
    """The state of attention, for more edges of the same rows and for gradients.

    Attributes
    ----------
    out : torch.Tensor
        [num_dst, heads, ...]: sums of rows by attention; divided by `sums` only after the last part.
    largest : torch.Tensor
        [num_dst, heads], the largest score; -inf without edges.
    sums : torch.Tensor
        [num_dst, heads], the sum of ``weight[e] * exp(s - largest)``.
    """

    out: torch.Tensor
    largest: torch.Tensor
    sums: torch.Tensor


def attend(
    indptr: Array,
    indices: Array,
    x: torch.Tensor,
    scores: AttentionScores,
    *,
    positions: Array | None = None,
    state: Attended | None = None,
    last: bool = True,
    num_threads: int | None = 1,
    trusted: bool = False,
) -> Attended:
    """Sum rows of `x` by attention (GAT, arXiv 1710.10903); 0 for a destination without edges.

    Scores, softmax and sum take one pass over the edges, and no array of edges times heads is written. The edges of a
    row may be divided over several calls, as shards in SAR (arXiv 2111.06483): each call continues from the `state`
    that the previous one returned, and rescales it for larger scores (online softmax). Results are the same bits for
    any number of threads and on a GPU; other divisions round differently. NaN in a score or a row makes the head of its
    destinations NaN, and so does a score of +inf. No gradient flows through it (`attend_with_grad`).

    Parameters
    ----------
    indptr, indices, num_threads, trusted
        As for `spmm`.
    x : torch.Tensor
        [num_src, heads, ...] of float32 or float64.
    scores : AttentionScores
        Scores of the sources, destinations and edges of the arrays.
    positions : torch.Tensor or numpy.ndarray, optional
        As for `spmm`: the positions of edges in arrays of edges.
    state : Attended, optional
        The state of other parts; written, and returned.
    last : bool
        Whether this is the last part, after which `out` is divided.

    Raises
    ------
    GraphError, FeatureError
        As for `spmm`.
    """
    stage = "attend"
    check_table(x, "x", stage)
    _check_scores(scores, x, stage)
    num_rows = count_rows(indptr, stage)
    shape = (num_rows, scores.heads)
    check_shape(scores.destination, "destination", stage, shape, x)
    if state is not None:
        if not isinstance(state, Attended):
            message = f"{stage}: expected state to be Attended, got {type(state).__name__}"
            raise FeatureError(message)
        for name, part, of in zip(Attended._fields, state, ((num_rows, *x.shape[1:]), shape, shape), strict=True):
            check_written(part, name, stage, of, x)
    device, fresh = kernels_for(x), state is None
    if device is None and not x.is_cpu:
        return Attended(*on_torch.attend(indptr, indices, x, scores, positions, state, last))
    found = state or Attended(new_rows(num_rows, x), *(x.new_empty(shape) for _ in range(2)))
    if device is not None:
        on_gpu.attend(
            indptr, indices, x, scores, positions, found, device, fresh=fresh, last=last, trusted=trusted is True
        )
    else:
        edges = as_edges(indptr, indices, positions, num_threads, stage)
        edge, weight, options = scores.arguments(stage)
        _native.attend(
            edges.indptr,
            edges.indices,
            table(scores.source),
            table(scores.destination),
            table(x),
            table(found.largest),
            table(found.sums),
            table(found.out),
            edge,
            weight,
            edges.positions,
            *options,
            fresh,
            last,
            edges.num_threads,
        )
    if state is not None:
        for part in found:  # one by one, for older torch
            increment_version(part)
    return found


def attend_backward_destinations(
    indptr: Array,
    indices: Array,
    x: torch.Tensor,
    scores: AttentionScores,
    attended: Attended,
    gradient: torch.Tensor,
    *,
    positions: Array | None = None,
    out: torch.Tensor | None = None,
    edge_out: torch.Tensor | None = None,
    num_threads: int | None = 1,
    trusted: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the gradients of the scores of destinations and of edges.

    Attention is computed anew from the scores and what `attend` returned behind the last part. Parts of the rows may
    come one after the other.

    Parameters
    ----------
    indptr, indices, x, scores, positions, num_threads, trusted
        As for `attend`.
    attended : Attended
        What it returned.
    gradient : torch.Tensor
        [num_dst, heads, ...], that of ``attended.out``.
    out : torch.Tensor, optional
        [num_dst, heads], added to. Default: a new one.
    edge_out : torch.Tensor, optional
        [num_positions, heads], written at the positions of the edges. Default: a new one if there are edge scores.

    Raises
    ------
    GraphError, FeatureError
        As for `attend`.
    """
    stage = "attend_backward_destinations"
    _check_backward(x, scores, attended, gradient, stage)
    if out is not None:
        check_written(out, "out", stage, tuple(scores.destination.shape), x)
    if edge_out is not None:
        check_written(edge_out, "edge_out", stage, (len(edge_out), scores.heads), x)
    device = kernels_for(x)
    if device is None and not x.is_cpu:
        return on_torch.attend_backward_destinations(
            indptr, indices, x, scores, attended, gradient, positions, out, edge_out
        )
    by_edge = edge_out
    if by_edge is None and scores.edge is not None:
        by_edge = torch.zeros_like(scores.edge, memory_format=torch.contiguous_format)
    result = torch.zeros_like(scores.destination, memory_format=torch.contiguous_format) if out is None else out
    if device is not None:
        on_gpu.attend_backward(
            indptr, indices, x, scores, attended, gradient, positions, result, device,
            by_edge=by_edge, stage=stage, trusted=trusted is True,
        )  # fmt: skip
    else:
        edges = as_edges(indptr, indices, positions, num_threads, stage)
        _backward(edges, x, scores, attended, gradient, result, by_edge, to_sources=False, stage=stage)
    for tensor in (out, edge_out):
        if tensor is not None:
            increment_version(tensor)
    return result.detach(), by_edge


def attend_backward_sources(
    indptr: Array,
    indices: Array,
    x: torch.Tensor,
    scores: AttentionScores,
    attended: Attended,
    gradient: torch.Tensor,
    *,
    positions: Array,
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
    num_threads: int | None = 1,
    trusted: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of the scores of sources and of `x`, over a transposed CSC.

    Parameters
    ----------
    indptr, indices, positions
        What `transpose_csc` returns: rows are sources, indices are destinations.
    x, scores, attended, gradient, num_threads, trusted
        As for `attend_backward_destinations`.
    out : pair of torch.Tensor, optional
        [num_src, heads] and [num_src, heads, ...], added to. The second may be `x` itself, which is then overwritten,
        so that rows of which nothing else is wanted need no second table. Default: new ones.

    Raises
    ------
    GraphError, FeatureError
        As for `attend`.
    """
    stage = "attend_backward_sources"
    _check_backward(x, scores, attended, gradient, stage)
    if out is not None:
        by_scores, by_x = out
        check_written(by_scores, "out[0]", stage, tuple(scores.source.shape), x)
        check_written(by_x, "out[1]", stage, tuple(x.shape), x)
    device = kernels_for(x)
    written_over = out is not None and x.numel() > 0 and out[1].data_ptr() == x.data_ptr()
    if written_over and (device is not None or not x.is_cpu):
        # Elsewhere than on a CPU rows are read while others are written.
        apart = by_scores, torch.zeros_like(x)
        attend_backward_sources(
            indptr, indices, x, scores, attended, gradient,
            positions=positions, out=apart, num_threads=num_threads, trusted=trusted,
        )  # fmt: skip
        return by_scores, x.copy_(apart[1])
    if device is None and not x.is_cpu:
        return on_torch.attend_backward_sources(indptr, indices, x, scores, attended, gradient, positions, out)
    if out is None:
        by_scores = x.new_zeros(scores.source.shape)
        by_x = new_rows(len(x), x).zero_()
    if device is not None:
        on_gpu.attend_backward(
            indptr, indices, x, scores, attended, gradient, positions, by_scores, device,
            by_x=by_x, stage=stage, trusted=trusted is True,
        )  # fmt: skip
    else:
        edges = as_edges(indptr, indices, positions, num_threads, stage)
        _backward(edges, x, scores, attended, gradient, by_scores, by_x, to_sources=True, stage=stage)
    if out is not None:
        increment_version(by_scores)
        increment_version(by_x)
    return by_scores, by_x


def _check_scores(scores: AttentionScores, x: torch.Tensor, stage: str) -> None:
    if not isinstance(scores, AttentionScores):
        message = f"{stage}: expected scores to be AttentionScores, got {type(scores).__name__}"
        raise FeatureError(message)
    scores.check(x, stage)


def _check_backward(
    x: torch.Tensor, scores: AttentionScores, attended: Attended, gradient: torch.Tensor, stage: str
) -> None:
    check_table(x, "x", stage)
    _check_scores(scores, x, stage)
    num_dst = len(scores.destination)
    rows, heads = (num_dst, *x.shape[1:]), (num_dst, scores.heads)
    if not isinstance(attended, Attended):
        message = f"{stage}: expected attended to be Attended, got {type(attended).__name__}"
        raise FeatureError(message)
    for name, part, shape in zip(
        ("gradient", *Attended._fields), (gradient, *attended), (rows, rows, heads, heads), strict=True
    ):
        check_shape(part, name, stage, shape, x)


def _backward(
    edges: Edges,
    x: torch.Tensor,
    scores: AttentionScores,
    attended: Attended,
    gradient: torch.Tensor,
    by_scores: torch.Tensor,
    by_other: torch.Tensor | None,
    *,
    to_sources: bool,
    stage: str,
) -> None:
    edge, weight, options = scores.arguments(stage)
    _native.attend_backward(
        edges.indptr,
        edges.indices,
        table(scores.source),
        table(scores.destination),
        table(x),
        table(attended.largest),
        table(attended.sums),
        table(attended.out),
        table(gradient),
        table(by_scores),
        None if by_other is None else table(by_other),
        edge,
        weight,
        edges.positions,
        *options,
        to_sources,
        edges.num_threads,
    )
