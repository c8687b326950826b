"""Edges that hops must not pick, on a device: twin of ``ops/native/sampling/excluded.hpp``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.hop import GpuGraph, Picks, Segments
from headrace.cuda.launch import launch
from headrace.cuda.sizes import Sizes


class Gaps(NamedTuple):
    """Edges that are not there.

    Attributes
    ----------
    positions
        int64[num_excluded], their positions, ascending; with slots those of one slot after the other.
    slots
        int64[num_excluded], the trees that they are left out of, ascending; None for all trees.
    """

    positions: Tensor
    slots: Tensor | None


class Left(NamedTuple):
    """What excluded edges leave of segments.

    Attributes
    ----------
    gaps
        int64[num_excluded], the positions of all excluded edges, as `Gaps` has them.
    first_gaps
        int64[num_segments], the first of them in each segment, or behind it.
    whole
        The segments.
    degrees
        int64[num_segments], how many edges are left.
    """

    gaps: Tensor
    first_gaps: Tensor
    whole: Segments
    degrees: Tensor

    @staticmethod
    def of(segments: Segments, gaps: Gaps) -> Left:
        """Return what is left of segments, which have slots if the gaps do."""
        first_gaps, degrees = torch.empty_like(segments.degrees), torch.empty_like(segments.degrees)
        num_segments = len(segments)
        launch(
            "find_gaps", (), num_segments, gaps.positions, gaps.slots, len(gaps.positions),
            None if gaps.slots is None else segments.slots, segments.starts, segments.degrees, num_segments, first_gaps,
            degrees, device=segments.device,
        )  # fmt: skip
        return Left(gaps.positions, first_gaps, segments, degrees)

    @property
    def segments(self) -> Segments:
        """Segments with as many edges as are left, from where the whole ones begin."""
        nodes, slots, starts, _ = self.whole
        return Segments(nodes, slots, starts, self.degrees)

    def packed(self, graph: GpuGraph, sizes: Sizes) -> tuple[GpuGraph, Segments, Tensor]:
        """Return arrays of a graph with the edges that are left, one segment after the other, and where they are.

        The last is where segments begin and end, int64[num_segments + 1]. Without room for them all are empty.
        """
        num_segments, device = len(self.whole), self.degrees.device
        indptr = torch.zeros(num_segments + 1, dtype=torch.int64, device=device)
        torch.cumsum(self.degrees, 0, out=indptr[1:])
        degrees, indptr, room = sizes.fit(self.degrees, indptr)
        starts = indptr[:-1]

        def pack(values: Tensor | None) -> Tensor | None:
            if values is None:
                return None
            left = torch.empty(room, dtype=values.dtype, device=device)
            gaps = (self.gaps, self.first_gaps, self.whole.starts, self.whole.degrees, degrees)
            arguments = (values, *gaps, num_segments, starts, left)
            launch("pack_edges", (values.dtype,), 32 * num_segments, *arguments, device=device)
            return left

        sources = pack(graph.indices)
        assert sources is not None
        packed = graph._replace(indices=sources, weights=pack(graph.weights), edge_ids=None, times=None, sums=None)
        return packed, Segments(self.whole.nodes, self.whole.slots, starts, degrees), indptr

    def unpack(self, picks: Picks, starts: Tensor) -> None:
        """Let picks be of the graph, which are of segments that begin at `starts`."""
        num_segments = len(self.whole)
        gaps = (self.gaps, self.first_gaps, self.whole.starts, self.whole.degrees, self.degrees)
        arguments = (*gaps, starts, picks.indptr, num_segments, picks.positions)
        launch("unpack_picks", (), 32 * num_segments, *arguments, device=starts.device)
