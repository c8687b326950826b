"""Aggregations where rows are on a GPU: arguments for the twins of `headrace.cuda`, and errors from what these find.

As kernels see them, tables are [rows, width] and contiguous (`readable`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headrace.ops.aggregate.edges import EdgeRows, readable
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_errors, on_device

if TYPE_CHECKING:
    from headrace.cuda.attention import Scores, State
    from headrace.cuda.edge_rows import EdgeRows as GpuEdgeRows
    from headrace.cuda.faults import Fault
    from headrace.ops.aggregate.attention import Attended
    from headrace.ops.aggregate.attention_scores import AttentionScores
    from headrace.ops.aggregate.extreme import Extremes

_IDS = (torch.int32, torch.int64)
_UNCOUNTED = torch.iinfo(torch.int64).max


def edge_rows(rows: EdgeRows, device: torch.device, *, num_others: int, num_positions: int | None) -> GpuEdgeRows:
    """Return rows of edges as kernels take them; unless they are trusted, they are looked at, and the host waits.

    Parameters
    ----------
    rows
        What was given.
    device
        Where kernels run.
    num_others
        Rows of the table that indices lead to.
    num_positions
        Entries of arrays of edges; None: there is no such array, and positions are names alone.

    Raises
    ------
    InputError
        If they are none.
    """
    from headrace.cuda.edge_rows import EdgeRows as GpuEdgeRows
    from headrace.cuda.edge_rows import check_edge_rows
    from headrace.cuda.faults import Fault

    stage = rows.stage
    starts = on_device(rows.indptr, "indptr", device, stage=stage, in_place=True)
    others = on_device(rows.indices, "indices", device, stage=stage, dtypes=_IDS, in_place=True)
    places = None
    if rows.positions is not None:
        places = on_device(rows.positions, "positions", device, stage=stage, dtypes=_IDS, in_place=True)
        rows.check_positions(len(places), len(others))
        if places.dtype != others.dtype:
            others, places = others.long(), places.long()
    if places is None and num_positions is not None and num_positions < len(others):
        raise InputError(f"{stage}: expected an entry for each of {len(others)} edges, got {num_positions}")
    found = GpuEdgeRows(starts, others, places)
    if rows.trusted is not True:  # nothing else is a promise
        most = _UNCOUNTED if num_positions is None else num_positions
        try:
            with device_errors():
                check_edge_rows(found, num_others, most, device)
        except Fault as fault:
            raise _wrong_rows(fault, found, num_others, most, stage) from fault
    return found


def _wrong_rows(fault: Fault, rows: GpuEdgeRows, num_others: int, num_positions: int, stage: str) -> InputError:
    i, indptr = fault.item, rows.indptr
    match fault.kind:
        case "wrong ends":
            what = f"expected indptr to run from 0 to len(indices) = {len(rows.indices)}, got {int(indptr[0])} to "
            return InputError(f"{stage}: {what}{int(indptr[-1])}; run check_csc on the graph")
        case "decreases":
            what = f"indptr[{i}] = {int(indptr[i])}, indptr[{i + 1}] = {int(indptr[i + 1])}"
            return InputError(f"{stage}: indptr decreases: {what}; expected the running sum of degrees")
        case "no row":
            what, bound = f"indices[{i}] = {int(rows.indices[i])}", num_others
        case _:
            assert rows.positions is not None
            what, bound = f"positions[{i}] = {int(rows.positions[i])}", num_positions
    return InputError(f"{stage}: {what} has no row: expected 0 <= it < {bound}")


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
    from headrace.cuda.spmm import spmm

    factors, edges = _weights_and_edges(rows, x, weight)
    by = None if divisors is None else readable(divisors)
    with device_errors():
        spmm(edges, readable(x), factors, by, readable(out), fresh=fresh)


def sddmm(rows: EdgeRows, a: torch.Tensor, b: torch.Tensor, winners: torch.Tensor | None, out: torch.Tensor) -> None:
    """Do what `headrace.ops.sddmm` does."""
    from headrace.cuda.spmm import sddmm

    edges = edge_rows(rows, a.device, num_others=len(b), num_positions=len(out))
    with device_errors():
        sddmm(edges, readable(a), readable(b), readable(out), None if winners is None else readable(winners))


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
    from headrace.cuda.spmm import spmm_extreme

    factors, edges = _weights_and_edges(rows, x, weight)
    values, winners = map(readable, found)
    with device_errors():
        spmm_extreme(edges, readable(x), factors, values, winners, largest=largest, fresh=fresh, last=last)


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
    from headrace.cuda.spmm import spmm_winners

    factors, edges = _weights_and_edges(rows, gradients, weight)
    with device_errors():
        spmm_winners(edges, readable(gradients), readable(winners), factors, readable(out), fresh=fresh)


def attend(
    rows: EdgeRows, x: torch.Tensor, scores: AttentionScores, found: Attended, *, fresh: bool, last: bool
) -> None:
    """Do what `headrace.ops.attend` does."""
    from headrace.cuda.attention import attend

    given, num_positions = _scores(scores, x.device, rows.stage)
    edges = edge_rows(rows, x.device, num_others=len(x), num_positions=num_positions)
    with device_errors():
        attend(edges, given, readable(x), _state(found), fresh=fresh, last=last)


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
    from headrace.cuda.attention import attend_backward

    given, num_positions = _scores(scores, x.device, rows.stage, by_edge)
    num_others = len(scores.source if by_x is None else scores.destination)
    edges = edge_rows(rows, x.device, num_others=num_others, num_positions=num_positions)
    if edges.num_rows != len(by_score):
        raise InputError(f"{rows.stage}: expected a row of edges for each row of scores, got {edges.num_rows}")
    written = [None if one is None else readable(one) for one in (by_edge, by_x)]
    with device_errors():
        attend_backward(
            edges, given, readable(x), _state(attended), readable(gradient), readable(by_score),
            by_edge=written[0], by_x=written[1],
        )  # fmt: skip


def _weights_and_edges(
    rows: EdgeRows, x: torch.Tensor, weight: torch.Tensor | None
) -> tuple[torch.Tensor | None, GpuEdgeRows]:
    """Return weights as [num_positions, heads], and the edges that they and rows of `x` belong to."""
    num_positions = None if weight is None else len(weight)
    edges = edge_rows(rows, x.device, num_others=len(x), num_positions=num_positions)
    return None if weight is None else readable(weight), edges


def _state(attended: Attended) -> State:
    from headrace.cuda.attention import State

    return State(*map(readable, attended))


def _scores(
    scores: AttentionScores, device: torch.device, stage: str, by_edge: torch.Tensor | None = None
) -> tuple[Scores, int | None]:
    """Return scores as kernels take them, and how many positions there are, on which all arrays of edges agree."""
    from headrace.cuda.attention import Scores

    edge, weight = (None if one is None else readable(one) for one in (scores.edge, scores.weight))
    dropout, ids = scores.dropout, None
    if dropout is not None and dropout.edge_ids is not None:
        ids = on_device(dropout.edge_ids, "edge_ids", device, stage=stage)
    arrays = {"gradients of edge scores": by_edge, "edge scores": edge, "weights": weight, "edge_ids": ids}
    lengths = {name: len(one) for name, one in arrays.items() if one is not None}
    num_positions = next(iter(lengths.values()), None)
    for name, length in lengths.items():
        if length != num_positions:
            raise InputError(f"{stage}: expected {name} to have one entry per edge ({num_positions}), got {length}")
    options = (0, 0, 1.0) if dropout is None else (dropout.key, dropout.threshold, dropout.kept_scale)
    return (
        Scores(readable(scores.source), readable(scores.destination), edge, weight, float(scores.slope), *options, ids),
        num_positions,
    )
