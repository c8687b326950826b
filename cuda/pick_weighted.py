"""Picks by edge weight on a device: twin of ``ops/native/weighted/``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.faults import Fault
from headrace.cuda.hop import GpuGraph, Segments
from headrace.cuda.launch import launch
from headrace.cuda.pick_labor import SharedVariates
from headrace.cuda.sizes import MOST_EDGES_UNKNOWN
from headrace.cuda.two_sweeps import TwoSweepPicker

#: Of the running sums of rows those before every so many edges are kept.
EDGES_PER_SUM = 4
#: As a fanout: more edges than any row has.
ALL = (1 << 63) - 1
#: Variates of 64 bits that a stream has.
MOST_VARIATES = 1 << 33
#: Up to so many picks room is made for as many as there can be at most, without waiting for the device.


class EdgeSums(NamedTuple):
    """Running sums of weights.

    Attributes
    ----------
    sums
        float64: of the whole graph in the order of positions, [num_edges // 4 + 1], or of each row of a frontier.
    starts
        int64[num_dst], where those of each row begin; None for those of the whole graph.
    """

    sums: Tensor
    starts: Tensor | None = None

    @staticmethod
    def of_segments(weights: Tensor, segments: Segments, most: int) -> EdgeSums:
        """Return those of the rows of a frontier, which have `most` edges, or less."""
        rooms = torch.div(segments.degrees, EDGES_PER_SUM, rounding_mode="floor") + 1
        starts = torch.cumsum(rooms, 0) - rooms
        num_sums = most // EDGES_PER_SUM + len(segments)
        sums = torch.empty(num_sums, dtype=torch.float64, device=segments.device)
        _sum_rows(weights, segments.starts, segments.degrees, starts, sums)
        return EdgeSums(sums, starts)


def sums_of_graph(graph: GpuGraph, device: torch.device) -> Tensor:
    """Return the running sums of all rows of a graph with weights, on a device.

    Rows that indptr does not bound are a fault that hops will find: they have no sums.
    """
    assert graph.weights is not None
    num_edges = len(graph.indices)
    starts, stops = graph.indptr[:-1].to(device), graph.indptr[1:].to(device)
    is_row = (starts >= 0) & (stops >= starts) & (stops <= num_edges)
    sums = torch.empty(num_edges // EDGES_PER_SUM + 1, dtype=torch.float64, device=device)
    _sum_rows(graph.weights, starts.where(is_row, 0), (stops - starts).where(is_row, 0), None, sums)
    return sums


def _sum_rows(weights: Tensor, starts: Tensor, degrees: Tensor, sum_starts: Tensor | None, sums: Tensor) -> None:
    arguments = (weights, starts.contiguous(), degrees, len(starts), sum_starts, sums)
    launch("sum_rows", (weights.dtype,), 32 * len(starts), *arguments, device=sums.device)


@dataclass(frozen=True)
class PositivePicker(TwoSweepPicker):
    """Picks all edges of positive weight."""

    weights: Tensor

    def sweep(self, segments: Segments, counts: Tensor | None, indptr: Tensor | None, positions: Tensor | None) -> None:
        """Look at all edges."""
        num_dst = len(segments)
        arguments = (self.weights, segments.starts, segments.degrees, num_dst, counts, indptr, positions)
        launch("pick_positive", (self.weights.dtype,), 32 * num_dst, *arguments, device=segments.device)


class WeightedPicker:
    """Draws so many distinct edges by weight, or takes all of positive weight if there are no more.

    How many a row has is known when they are picked, so they wait between `counts` and `pick`.

    Parameters
    ----------
    weights
        float32 or float64[num_edges].
    sums
        Those of the whole graph, or of the rows of the frontier.
    key, fanout
        By which stream, and how many.
    """

    def __init__(self, weights: Tensor, sums: EdgeSums, key: int, fanout: int) -> None:
        self._weights = weights
        self._sums = sums
        self._key = key
        self._fanout = fanout
        self._places: Tensor | None = None
        self._picks: Tensor | None = None

    def counts(self, segments: Segments) -> Tensor:
        """Pick, and return how many edges there are."""
        nodes, slots, starts, degrees = segments
        draws = 4 * self._fanout + 16
        if draws + len(self._weights) > MOST_VARIATES and self._fanout > 0:
            needed = torch.where(2 * (degrees - self._fanout) < self._fanout, degrees, degrees + draws)
            _refuse_first(segments, (degrees > self._fanout) & (needed > MOST_VARIATES))
        rooms = degrees.clamp(max=self._fanout)
        ends = torch.cumsum(rooms, 0)
        most = self._fanout * len(segments)
        if most > MOST_EDGES_UNKNOWN:
            most = int(ends[-1])
        self._places = ends - rooms
        self._picks = torch.empty(most, dtype=torch.int64, device=segments.device)
        counts = torch.empty_like(degrees)
        of_rows = (nodes, slots, starts, degrees, len(segments), self._fanout, self._places, self._picks, counts)
        launch(
            "pick_weighted", (self._weights.dtype,), 32 * len(segments), self._weights, *self._sums, self._key,
            *of_rows, device=segments.device,
        )  # fmt: skip
        return counts

    def pick(self, segments: Segments, indptr: Tensor, positions: Tensor) -> None:
        """Put the picks where they belong."""
        num_dst = len(segments)
        arguments = (self._places, self._picks, indptr, num_dst, positions)
        launch("move_picks", (), 32 * num_dst, *arguments, device=segments.device)
        self._places = self._picks = None


class WeightedReplacementPicker(TwoSweepPicker):
    """Draws so many times by weight from each row that has any.

    Parameters
    ----------
    weights, sums, key, fanout
        As for `WeightedPicker`.
    """

    def __init__(self, weights: Tensor, sums: EdgeSums, key: int, fanout: int) -> None:
        self._weights = weights
        self._sums = sums
        self._key = key
        self._fanout = fanout

    def counts(self, segments: Segments) -> Tensor:
        """Return the fanout, or 0 for rows without weight."""
        if self._fanout > MOST_VARIATES:
            _refuse_first(segments, segments.degrees > 0)
        return super().counts(segments)

    def sweep(self, segments: Segments, counts: Tensor | None, indptr: Tensor | None, positions: Tensor | None) -> None:
        """Draw."""
        nodes, slots, starts, degrees = segments
        of_rows = (nodes, slots, starts, degrees, len(nodes), self._fanout, counts, indptr, positions)
        launch(
            "pick_weighted_replacement", (self._weights.dtype,), 32 * len(nodes), self._weights, *self._sums,
            self._key, *of_rows, device=segments.device,
        )  # fmt: skip


class LaborWeightedPicker(NamedTuple):
    """LABOR-0 by weight (arXiv 2210.13339); picked edges have importance weights.

    Attributes
    ----------
    shared
        The variates.
    weights
        float32 or float64[num_edges].
    fanout
        In-edges per destination, `ALL` for those of positive weight.
    exact
        Whether exactly so many, or each on its own.
    """

    shared: SharedVariates
    weights: Tensor
    fanout: int
    exact: bool

    def counts(self, segments: Segments) -> Tensor:
        """Return how many edges will be picked."""
        counts = torch.empty_like(segments.degrees)
        self._launch(segments, counts, None, None, None)
        return counts

    def pick(self, segments: Segments, indptr: Tensor, positions: Tensor) -> Tensor:
        """Look at all edges once more; return the importance weights."""
        importance = torch.empty(len(positions), dtype=torch.float32, device=segments.device)
        self._launch(segments, None, indptr, positions, importance)
        return importance

    def _launch(
        self,
        segments: Segments,
        counts: Tensor | None,
        indptr: Tensor | None,
        positions: Tensor | None,
        importance: Tensor | None,
    ) -> None:
        _, slots, starts, degrees = segments
        of_rows = (slots, starts, degrees, len(segments), self.fanout, self.exact, counts, indptr, positions)
        launch(
            "pick_labor_weighted", (self.shared.indices.dtype, self.weights.dtype), 32 * len(segments),
            *self.shared.arguments, self.weights, *of_rows, importance, device=segments.device,
        )  # fmt: skip


def _refuse_first(segments: Segments, needs_too_many: Tensor) -> None:
    """Refuse the first node that needs more variates than its stream has."""
    found = segments.nodes[needs_too_many]
    if len(found):
        raise Fault("too many draws", int(found[0]))
