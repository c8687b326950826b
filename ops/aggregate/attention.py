"""Attention over the in-edges of each destination, as in GAT, in one pass that parts of rows can share."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.autograd.graph import increment_version

from headrace.ops._arrays import Array
from headrace.ops.aggregate import on_cpu, on_gpu, on_torch
from headrace.ops.aggregate.attention_scores import AttentionDropout, AttentionScores
from headrace.ops.aggregate.edges import EdgeRows, by_device, check_shape, check_table, check_written, new_rows
from headrace.ops.errors import InputError

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
    InputError
        As for `spmm`.
    """
    rows = EdgeRows(indptr, indices, positions, num_threads, trusted, "attend")
    stage = rows.stage
    check_table(x, "x", stage)
    _check_scores(scores, x, stage)
    num_rows = rows.num_rows
    shape = (num_rows, scores.heads)
    check_shape(scores.destination, "destination", stage, shape, x)
    if state is not None:
        if not isinstance(state, Attended):
            message = f"{stage}: expected state to be Attended, got {type(state).__name__}"
            raise InputError(message)
        for name, part, of in zip(Attended._fields, state, ((num_rows, *x.shape[1:]), shape, shape), strict=True):
            check_written(part, name, stage, of, x)
    found = state or Attended(new_rows(num_rows, x), *(x.new_empty(shape) for _ in range(2)))
    add = by_device(x, on_cpu.attend, on_gpu.attend, on_torch.attend)
    add(rows, x, scores, found, fresh=state is None, last=last)
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
    InputError
        As for `attend`.
    """
    rows = EdgeRows(indptr, indices, positions, num_threads, trusted, "attend_backward_destinations")
    _check_backward(x, scores, attended, gradient, rows.stage)
    if out is not None:
        check_written(out, "out", rows.stage, tuple(scores.destination.shape), x)
    if edge_out is not None:
        check_written(edge_out, "edge_out", rows.stage, (len(edge_out), scores.heads), x)
    by_edge = edge_out
    if by_edge is None and scores.edge is not None:
        by_edge = torch.zeros_like(scores.edge, memory_format=torch.contiguous_format)
    result = torch.zeros_like(scores.destination, memory_format=torch.contiguous_format) if out is None else out
    add = by_device(x, on_cpu.attend_backward, on_gpu.attend_backward, on_torch.attend_backward)
    add(rows, x, scores, attended, gradient, result, by_edge=by_edge)
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
    InputError
        As for `attend`.
    """
    rows = EdgeRows(indptr, indices, positions, num_threads, trusted, "attend_backward_sources")
    _check_backward(x, scores, attended, gradient, rows.stage)
    if out is None:
        by_scores, by_x = x.new_zeros(scores.source.shape), new_rows(len(x), x).zero_()
    else:
        by_scores, by_x = out
        check_written(by_scores, "out[0]", rows.stage, tuple(scores.source.shape), x)
        check_written(by_x, "out[1]", rows.stage, tuple(x.shape), x)
    add = by_device(x, on_cpu.attend_backward, on_gpu.attend_backward, on_torch.attend_backward)
    # Elsewhere than on a CPU rows are read while others are written.
    apart = add is not on_cpu.attend_backward and x.numel() > 0 and by_x.data_ptr() == x.data_ptr()
    target = torch.zeros_like(x) if apart else by_x
    add(rows, x, scores, attended, gradient, by_scores, by_x=target)
    if apart:
        by_x.copy_(target)
    if out is not None:
        increment_version(by_scores)
        increment_version(by_x)
    return by_scores, by_x


def _check_scores(scores: AttentionScores, x: torch.Tensor, stage: str) -> None:
    if not isinstance(scores, AttentionScores):
        message = f"{stage}: expected scores to be AttentionScores, got {type(scores).__name__}"
        raise InputError(message)
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
        raise InputError(message)
    for name, part, shape in zip(
        ("gradient", *Attended._fields), (gradient, *attended), (rows, rows, heads, heads), strict=True
    ):
        check_shape(part, name, stage, shape, x)
