"""Parallel edges on a device: which of the edges from one source to one destination each is."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.cuda.rows import gather_rows
from headrace.cuda.streams import in_order

#: About so many edges are sorted at once, which takes some 100 bytes each; a longer row is sorted as a whole.
EDGES_AT_ONCE = 1 << 22


class EdgeNumbers:
    """Numbers of the edges of a graph among those of their row from the same source.

    Twin of ``ops/native/sampling/parallel_edges.hpp``, by sorting.

    Parameters
    ----------
    numbers
        int32[num_edges] of the whole graph in CSC order; None: they are found for the rows of each frontier.
    starts
        With it numbers are those of rows of a frontier, int64[num_dst], where those of each row begin.
    """

    def __init__(self, numbers: Tensor | None = None, starts: Tensor | None = None) -> None:
        self._numbers = numbers
        self._starts = starts

    @staticmethod
    def of_graph(indptr: Tensor, indices: Tensor, device: torch.device) -> EdgeNumbers | None:
        """Return those of a whole graph, for a device, or None where no row holds a source twice.

        Rows that do not follow each other are a fault that hops will find: their edges have no numbers.
        """
        lengths = indptr.diff()
        if bool((lengths < 0).any()) or int(lengths.sum()) != len(indices):
            return None
        numbers = _number_rows(indptr[:-1], indptr, indices, device)
        return EdgeNumbers(numbers) if bool(numbers.any()) else None

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What they are in."""
        return () if self._numbers is None else (self._numbers,)

    @property
    def known(self) -> bool:
        """Whether they are there for the whole graph."""
        return self._numbers is not None

    @property
    def tables(self) -> tuple[Tensor | None, Tensor | None]:
        """The numbers, and where those of each row of a frontier begin, or None where they are of the whole graph."""
        return self._numbers, self._starts

    @staticmethod
    def of_rows(starts: Tensor, first: Tensor, room: int, indices: Tensor) -> EdgeNumbers:
        """Return those of the rows of a frontier.

        Parameters
        ----------
        starts
            int64[num_dst], where each row begins.
        first
            int64[num_dst + 1], where its numbers begin, and end where those of the next one begin.
        room
            For so many numbers, no less than there are; if it is more than `EDGES_AT_ONCE`, the host waits.
        indices
            The sources of the graph, on the device or in memory that it reads.
        """
        device = starts.device
        if room > EDGES_AT_ONCE:
            there = indices.device  # the graph may be in memory of the host
            return EdgeNumbers(_number_rows(starts.to(there), first.to(there), indices, device), first)
        num_dst, num_edges = starts.shape[0], indices.shape[0]
        if 0 in (num_dst, num_edges, room):
            return EdgeNumbers(torch.empty(0, dtype=torch.int32, device=device), first)
        # What there is room for beyond the rows is of a row behind all others.
        place = torch.arange(room, device=device)
        row = torch.searchsorted(first, place, right=True).sub_(1)
        shifts = starts - first[:-1]
        positions = place.add_(shifts[row.clamp(max=num_dst - 1)]).clamp_(0, num_edges - 1)
        sources = torch.empty(room, dtype=indices.dtype, device=device)
        gather_rows(indices, positions, sources, None, trusted=True)
        in_order()
        return EdgeNumbers(number_edges(row, sources), first)


def _number_rows(starts: Tensor, offsets: Tensor, indices: Tensor, device: torch.device) -> Tensor:
    """Return the numbers of the edges of rows on a device, whole rows at a time.

    Parameters
    ----------
    starts
        int64[num_rows], where each row begins in the graph.
    offsets
        int64[num_rows + 1], where its numbers begin among those that are returned.
    indices
        The sources of the graph, on the device or in memory of the host.
    device
        Where edges are sorted.
    """
    numbers = torch.empty(int(offsets[-1]), dtype=torch.int32, device=device)
    row = 0
    while row < len(starts):
        first = int(offsets[row])
        fitting = int(torch.searchsorted(offsets, first + EDGES_AT_ONCE, right=True)) - 1
        stop = max(fitting, row + 1)
        lengths = offsets[row : stop + 1].diff()
        of_row = torch.arange(stop - row, device=starts.device).repeat_interleave(lengths)
        shifts = starts[row:stop] - (offsets[row:stop] - first)
        positions = torch.arange(len(of_row), device=starts.device) + shifts[of_row]
        sources = indices[positions.to(indices.device)].to(device)
        numbers[first : first + len(of_row)] = number_edges(of_row.to(device), sources)
        row = stop
    return numbers


def number_edges(row: Tensor, source: Tensor) -> Tensor:
    """Return how many edges of the same row and source stand before each, int32[num_edges]."""
    by_source = torch.argsort(source, stable=True)
    order = by_source[torch.argsort(row[by_source], stable=True)]
    row, source = row[order], source[order]
    place = torch.arange(len(order), device=row.device)
    is_first = torch.ones(len(order), dtype=torch.bool, device=row.device)
    is_first[1:] = (row[1:] != row[:-1]) | (source[1:] != source[:-1])
    first_of_group = torch.cummax(torch.where(is_first, place, 0), 0).values if len(order) else place
    numbers = torch.empty(len(order), dtype=torch.int32, device=row.device)
    numbers[order] = (place - first_of_group).to(torch.int32)
    return numbers
