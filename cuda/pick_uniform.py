"""Uniform picks on a device: twin of ``ops/native/sampling/pick_uniform.hpp``."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from headrace.cuda.hop import Segments
from headrace.cuda.launch import launch

#: From here on a warp looks through what has been picked of a row.
LARGE_FANOUT = 32


class AllPicker(NamedTuple):
    """Picks all edges."""

    def counts(self, segments: Segments) -> Tensor:
        """Return the degrees."""
        return segments.degrees

    def pick(self, segments: Segments, indptr: Tensor, positions: Tensor) -> None:
        """Write the positions of all edges."""
        num_dst = len(segments)
        launch("pick_all", (), 32 * num_dst, segments.starts, indptr, num_dst, positions, device=segments.device)


class LatestPicker(NamedTuple):
    """Picks so many of the last edges."""

    fanout: int

    def counts(self, segments: Segments) -> Tensor:
        """Return the degrees, or the fanout where that is less."""
        return segments.degrees.clamp(max=self.fanout)

    def pick(self, segments: Segments, indptr: Tensor, positions: Tensor) -> None:
        """Write the positions of the last edges."""
        num_dst, first = len(segments), segments.starts + segments.degrees - self.counts(segments)
        launch("pick_all", (), 32 * num_dst, first, indptr, num_dst, positions, device=segments.device)


class UniformPicker(NamedTuple):
    """Picks so many distinct edges, or all if there are no more."""

    key: int
    fanout: int

    def counts(self, segments: Segments) -> Tensor:
        """Return the degrees, or the fanout where that is less."""
        return segments.degrees.clamp(max=self.fanout)

    def pick(self, segments: Segments, indptr: Tensor, positions: Tensor) -> None:
        """Draw by Floyd's algorithm."""
        lanes = 1 if self.fanout <= LARGE_FANOUT else 32
        nodes, slots, starts, degrees = segments
        num_dst = nodes.shape[0]
        arguments = (self.key, nodes, slots, starts, degrees, num_dst, self.fanout, indptr, positions)
        launch("pick_uniform", (str(lanes),), lanes * num_dst, *arguments, device=segments.device)


class UniformReplacementPicker(NamedTuple):
    """Draws so many times from each row that is not empty."""

    key: int
    fanout: int

    def counts(self, segments: Segments) -> Tensor:
        """Return the fanout, or 0 for empty rows."""
        return (segments.degrees > 0) * self.fanout

    def pick(self, segments: Segments, indptr: Tensor, positions: Tensor) -> None:
        """Draw."""
        nodes, slots, starts, degrees = segments
        arguments = (self.key, nodes, slots, starts, degrees, len(nodes), indptr, positions)
        launch("pick_uniform_replacement", (), len(nodes), *arguments, device=segments.device)
