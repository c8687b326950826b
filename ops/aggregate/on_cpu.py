"""Aggregations of rows in CPU memory: tables and rows of edges for the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from headrace.ops import _native
from headrace.ops._arrays import as_numpy
from headrace.ops.aggregate.edges import EdgeRows, readable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.ops.aggregate.attention import Attended
    from headrace.ops.aggregate.attention_scores import AttentionScores
    from headrace.ops.aggregate.extreme import Extremes


def _table(value: torch.Tensor | None) -> Any:
    """Return a CPU tensor as the table that kernels read."""
    return None if value is None else readable(value).numpy()


def _vector(value: torch.Tensor | None) -> Any:
    """Return a CPU tensor of one dimension as kernels read it."""
    return None if value is None else readable(value).numpy().reshape(-1)


def spmm(
    rows: EdgeRows,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    divisors: torch.Tensor | None,
    out: torch.Tensor,
    *,
    fresh: bool,
) -> None:
    """Do what `headrace.ops.spmm` does."""
    edges, threads = rows.on_cpu()
    _native.spmm(edges, _table(x), _table(out), _table(weight), _vector(divisors), fresh, threads)


def sddmm(rows: EdgeRows, a: torch.Tensor, b: torch.Tensor, winners: torch.Tensor | None, out: torch.Tensor) -> None:
    """Do what `headrace.ops.sddmm` does."""
    edges, threads = rows.on_cpu()
    _native.sddmm(edges, _table(a), _table(b), _table(out), _table(winners), threads)


def spmm_extreme(
    rows: EdgeRows,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    found: Extremes,
    *,
    largest: bool,
    fresh: bool,
    last: bool,
) -> None:
    """Do what `headrace.ops.spmm_extreme` does."""
    edges, threads = rows.on_cpu()
    values, winners = map(_table, found)
    _native.spmm_extreme(edges, _table(x), values, winners, _table(weight), largest, fresh, last, threads)


def spmm_winners(
    rows: EdgeRows,
    gradients: torch.Tensor,
    winners: torch.Tensor,
    weight: torch.Tensor | None,
    out: torch.Tensor,
    *,
    fresh: bool,
) -> None:
    """Do what `headrace.ops.spmm_winners` does."""
    edges, threads = rows.on_cpu()
    given = _table(gradients), _table(winners), _table(out), _table(weight)
    _native.spmm_winners(edges, *given, fresh, threads)


def attend(
    rows: EdgeRows, x: torch.Tensor, scores: AttentionScores, found: Attended, *, fresh: bool, last: bool
) -> None:
    """Do what `headrace.ops.attend` does."""
    edges, threads = rows.on_cpu()
    _native.attend(edges, _scores(scores, rows.stage), _table(x), _state(found), fresh, last, threads)


def attend_backward(
    rows: EdgeRows,
    x: torch.Tensor,
    scores: AttentionScores,
    attended: Attended,
    gradient: torch.Tensor,
    by_score: torch.Tensor,
    *,
    by_edge: torch.Tensor | None = None,
    by_x: torch.Tensor | None = None,
) -> None:
    """Do what `attend_backward_destinations` does, or `attend_backward_sources` with `by_x`."""
    edges, threads = rows.on_cpu()
    to_sources = by_x is not None
    written = _table(by_score), _table(by_x if to_sources else by_edge)
    given = _scores(scores, rows.stage)
    _native.attend_backward(edges, given, _table(x), _state(attended), _table(gradient), *written, to_sources, threads)


def _state(parts: Iterable[torch.Tensor]) -> Any:
    return tuple(map(_table, parts))


def _scores(scores: AttentionScores, stage: str) -> Any:
    """Return scores, weights and what dropout depends on, as kernels take them."""
    tables = _table(scores.source), _table(scores.destination), _table(scores.edge), _vector(scores.weight)
    dropout = scores.dropout
    if dropout is None:
        return *tables, float(scores.slope), 0, 0, 1.0, None
    ids = None if dropout.edge_ids is None else as_numpy(dropout.edge_ids, "edge_ids", stage=stage)
    return *tables, float(scores.slope), dropout.key, dropout.threshold, dropout.kept_scale, ids
