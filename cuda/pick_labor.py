"""LABOR-0 on a device (arXiv 2210.13339): twin of ``ops/native/sampling/pick_labor.hpp``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from headrace.cuda.hop import Segments
from headrace.cuda.launch import launch
from headrace.cuda.two_sweeps import TwoSweepPicker
from headrace.cuda.variates import Variates


class SharedVariates(NamedTuple):
    """The variates of edges.

    Attributes
    ----------
    indices
        Sources, int32 or int64[num_edges].
    variates
        The keys.
    numbers, number_starts
        Numbers of parallel edges, and where those of each row begin: see `headrace.cuda.edge_numbers`.
    """

    indices: Tensor
    variates: Variates
    numbers: Tensor | None
    number_starts: Tensor | None

    @property
    def arguments(self) -> tuple[Tensor | float | None, ...]:
        """What kernels take of them."""
        return (self.indices, *self.variates.words, self.numbers, self.number_starts)


class LaborExactPicker(NamedTuple):
    """Picks the edges with the smallest variates, so many of each row."""

    shared: SharedVariates
    fanout: int

    def counts(self, segments: Segments) -> Tensor:
        """Return the degrees, or the fanout where that is less."""
        return segments.degrees.clamp(max=self.fanout)

    def pick(self, segments: Segments, indptr: Tensor, positions: Tensor) -> None:
        """Look for the smallest variates of short rows by a warp each, of long ones by a block each."""
        nodes, slots, starts, degrees = segments
        of_rows = (slots, starts, degrees, len(nodes), self.fanout, indptr, positions)
        types = (self.shared.indices.dtype,)
        launch("pick_labor_exact", types, 32 * len(nodes), *self.shared.arguments, *of_rows, device=segments.device)


@dataclass(frozen=True)
class LaborPoissonPicker(TwoSweepPicker):
    """Picks each edge whose variate is below the probability that is wanted."""

    shared: SharedVariates
    fanout: int

    def sweep(self, segments: Segments, counts: Tensor | None, indptr: Tensor | None, positions: Tensor | None) -> None:
        """Look at all edges."""
        nodes, slots, starts, degrees = segments
        of_rows = (slots, starts, degrees, len(nodes), self.fanout, counts, indptr, positions)
        types = (self.shared.indices.dtype,)
        arguments = (*self.shared.arguments, *of_rows)
        launch("pick_labor_poisson", types, 32 * len(nodes), *arguments, device=segments.device)
