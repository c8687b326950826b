"""Attention over in-edges on a device, forward and backward: twin of ``ops/native/aggregate/attention*.cpp``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.edge_rows import EdgeRows
from headrace.cuda.launch import launch

_HEADS = 4  # of a warp, see kernels/attention.cuh


class Scores(NamedTuple):
    """What scores and attention depend on, of tensors on the device; see ``headrace.ops.AttentionScores``.

    Attributes
    ----------
    source, destination
        [num_src, heads] and [num_dst, heads].
    edge
        [num_positions, heads] or None.
    weight
        [num_positions] or None: 1.
    slope
        Of the leaky rectifier below 0.
    key, threshold, kept_scale
        Of dropout: of 2**32 words so many are dropped, and the others are multiplied.
    edge_ids
        int64[num_positions], what streams go by; None: positions.
    """

    source: Tensor
    destination: Tensor
    edge: Tensor | None
    weight: Tensor | None
    slope: float
    key: int
    threshold: int
    kept_scale: float
    edge_ids: Tensor | None

    @property
    def of_edges(self) -> tuple[Tensor | float | None, ...]:
        """What kernels take behind the scores of nodes."""
        return self[2:]


class State(NamedTuple):
    """What goes on from part to part of the rows: [num_dst, width], and [num_dst, heads] twice."""

    out: Tensor
    largest: Tensor
    sums: Tensor


def attend(rows: EdgeRows, scores: Scores, x: Tensor, state: State, *, fresh: bool, last: bool) -> None:
    """Add up rows of `x` by attention, onto a state.

    Parameters
    ----------
    rows
        Good ones, by destination.
    scores
        Of one head or more, which divide the width.
    x
        float32 or float64[num_src, width], contiguous.
    state
        Written.
    fresh
        Whether what it holds does not count.
    last
        Whether sums are divided in the end.
    """
    arguments = (
        *rows.arguments, scores.source.shape[1], scores.source, scores.destination, *scores.of_edges, x, x.shape[1],
        state.largest, state.sums, state.out, fresh, last,
    )  # fmt: skip
    launch("attend", rows.types(x), _threads(rows, scores), *arguments, device=x.device)


def attend_backward(
    rows: EdgeRows,
    scores: Scores,
    x: Tensor,
    state: State,
    gradients: Tensor,
    by_score: Tensor,
    *,
    by_edge: Tensor | None = None,
    by_x: Tensor | None = None,
) -> None:
    """Add up the gradients of scores of destinations, or of sources and `x`.

    Parameters
    ----------
    rows
        Good ones: by destination, or with `by_x` by source.
    scores, x, state
        As for `attend`, behind the last part.
    gradients
        [num_dst, width], those of ``state.out``.
    by_score
        [num_dst, heads] or [num_src, heads]: added to.
    by_edge
        [num_positions, heads], written; for rows by destination.
    by_x
        [num_src, width], added to.
    """
    device, width = x.device, x.shape[1]
    num_dst, heads = scores.destination.shape
    centres = torch.empty(num_dst, 4, heads, dtype=x.dtype, device=device)
    state_of = (scores.destination, state.largest, state.sums, state.out)
    launch(
        "attention_centres", (x.dtype,), 8 * num_dst * heads, num_dst, heads, *state_of, gradients, width, centres,
        device=device,
    )  # fmt: skip
    own, others = (gradients, x) if by_x is None else (x, gradients)
    arguments = (
        *rows.arguments, heads, scores.source, *scores.of_edges, centres, own, others, width, by_score, by_edge, by_x,
    )  # fmt: skip
    launch("attend_backward", rows.types(x), _threads(rows, scores), *arguments, device=device)


def _threads(rows: EdgeRows, scores: Scores) -> int:
    """Return how many threads have work: a warp for each row and up to four heads."""
    return 32 * rows.num_rows * -(-scores.source.shape[1] // _HEADS)
