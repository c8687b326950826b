"""Rows of a frontier on a device, copied out of a graph that lies in memory of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from headrace.cuda.edge_numbers import EdgeNumbers
from headrace.cuda.hop import Frontier, GpuGraph, Picks, Segments, find_segments
from headrace.cuda.launch import launch
from headrace.cuda.rules import HopSpec, pick_hop
from headrace.cuda.sizes import Sizes

#: Entries of a line of `indices`, which is copied by a warp.
LINE_EDGES = 32


class RowLines(NamedTuple):
    """The rows of a frontier, and the lines of the graph's `indices` that they lie in.

    Attributes
    ----------
    indptr
        int64[num_dst + 1], where rows are when they stand one behind the other.
    starts, degrees
        int64[num_dst]: degrees[i] edges from CSC position starts[i] on.
    room
        For the edges of all rows, which may be fewer.
    row_of, lines
        int64[num_lines]; a line that two rows share is there twice. Behind all lines there may be some that are -1.
    """

    indptr: Tensor
    starts: Tensor
    degrees: Tensor
    room: int
    row_of: Tensor
    lines: Tensor


class Counts(Protocol):
    """What a cache had of the lines that were looked up."""

    def read(self) -> dict[str, int]:
        """Return hits and misses; somebody has waited."""


class Cache(Protocol):
    """A cache of lines on the device, as `headrace.ops.LineCache`."""

    def looked_up(self, lines: Tensor) -> AbstractContextManager[tuple[tuple[Tensor, Tensor, Tensor], Counts]]:
        """Look up lines, and lock the cache until those that are missing have been copied there."""


class Fetched:
    """Hops of one minibatch whose rows are fetched before they are sampled, through a cache or without one.

    Parameters
    ----------
    cache
        On the device, or None.
    warn
        Shows a user a warning.
    """

    def __init__(self, cache: Cache | None, warn: Callable[[str], None]) -> None:
        self._cache = cache
        self._warn = warn
        self._counts: list[Counts] = []
        #: Which of the sizes are those of rows.
        self._places: list[int] = []

    def counts(self, sizes: Sequence[int]) -> dict[str, int]:
        """Return counts of all hops, by sizes of arrays; the host has waited for them."""
        totals = {"fetched_edges": sum(sizes[place] for place in self._places)} if self._places else {}
        for of_hop in self._counts:
            for name, count in of_hop.read().items():
                totals[name] = totals.get(name, 0) + count
        return totals

    def rows(self, graph: GpuGraph, segments: Segments, sizes: Sizes) -> tuple[RowLines, Tensor]:
        """Fetch the rows of segments, and return where their sources are, [room], and these."""
        place = sizes.num_given
        rows, copied, counts = fetch(graph, segments, sizes, self._cache)
        if counts is not None:
            self._counts.append(counts)
        self._places.append(place)
        return rows, copied

    def pick(
        self, graph: GpuGraph, frontier: Frontier, hop: HopSpec, sizes: Sizes, *, parallel_edges: bool
    ) -> FetchedPicks | None:
        """Fetch the rows of a frontier, and pick of them; None, with a warning, where they have no room."""
        try:
            rows, copied = self.rows(graph, find_segments(graph, frontier, sizes.faults), sizes)
        except torch.cuda.OutOfMemoryError as error:
            why = str(error).partition(". ")[0]
            self._warn(f"split_sample: rows are sampled in place, as {why}")
            return None
        numbers = None
        if parallel_edges and hop.rules[0].fanout >= 0:
            numbers = EdgeNumbers.of_rows(rows.indptr[:-1], rows.indptr, rows.room, copied)
        # Rows are those of a graph of their own, of which each is asked for once.
        every = Frontier(torch.arange(len(rows.starts), device=copied.device))
        picks = pick_hop(GpuGraph(rows.indptr, copied), every, hop, numbers, sizes, bounded=True)
        return FetchedPicks(graph._replace(indices=copied, edge_ids=None), picks, rows)


class FetchedPicks(NamedTuple):
    """What was picked of rows that were fetched.

    Attributes
    ----------
    graph
        Whose sources are those that were fetched, at the positions that were picked.
    picks, rows
        What, and of which rows.
    """

    graph: GpuGraph
    picks: Picks
    rows: RowLines

    def return_edges(self, graph: GpuGraph, edges: Tensor) -> None:
        """Let edges, int64[num_edges], which are positions of picks, be ids of the graph that rows were fetched of."""
        num_dst = len(self.rows.starts)
        types = (torch.int64 if graph.edge_ids is None else graph.edge_ids.dtype,)
        arguments = (self.rows.starts, self.rows.indptr, self.picks.indptr, num_dst, graph.edge_ids, edges)
        launch("return_edges", types, 32 * num_dst, *arguments, device=edges.device)


def fetch(
    graph: GpuGraph, segments: Segments, sizes: Sizes, cache: Cache | None
) -> tuple[RowLines, Tensor, Counts | None]:
    """Copy rows, each of them a segment; return where their sources are, [room], these, and what a cache had."""
    rows = find_lines(graph, segments, sizes)
    copied = torch.empty(rows.room, dtype=graph.indices.dtype, device=rows.starts.device)
    if cache is None:
        copy_lines(graph, rows, None, copied)
        return rows, copied, None
    with cache.looked_up(rows.lines) as (places, counts):
        copy_lines(graph, rows, places, copied)
    return rows, copied, counts


def find_lines(graph: GpuGraph, segments: Segments, sizes: Sizes) -> RowLines:
    """Find the lines of rows, each of them a segment; `sizes` gives room for their edges."""
    device, num_dst = segments.device, len(segments)
    indptr, first = (torch.zeros(num_dst + 1, dtype=torch.int64, device=device) for _ in range(2))
    torch.cumsum(segments.degrees, 0, out=indptr[1:])
    degrees, indptr, room = sizes.fit(segments.degrees, indptr)
    offset = _offset(graph.indices)
    counts = torch.empty(num_dst, dtype=torch.int64, device=device)
    launch("count_lines", (), num_dst, segments.starts, degrees, num_dst, offset, counts, device=device)
    torch.cumsum(counts, 0, out=first[1:])
    # A line has an edge of the row or more, and those between its first and its last one are full of them.
    most_lines = min(room, room // LINE_EDGES + 2 * num_dst)
    row_of, lines = (torch.empty(most_lines, dtype=torch.int64, device=device) for _ in range(2))
    arguments = (segments.starts, num_dst, offset, first, most_lines, row_of, lines)
    launch("list_lines", (), most_lines, *arguments, device=device)
    return RowLines(indptr, segments.starts, degrees, room, row_of, lines)


def copy_lines(graph: GpuGraph, rows: RowLines, cached: tuple[Tensor, Tensor, Tensor] | None, out: Tensor) -> None:
    """Copy the sources of rows to `out`, [room], one row behind the other.

    Parameters
    ----------
    graph, rows
        Of what, and which.
    cached
        In which slot a cache on the device has each line, where lines that it has not are to be filled in, int64 each,
        below 0 for nowhere, and what is in the slots, [num_slots * LINE_EDGES]. None without a cache. No slot is read
        and filled.
    out
        On the device.
    """
    slots, fills, entries = cached or (None, None, None)
    num_lines = len(rows.lines)
    launch(
        "copy_lines", (graph.indices.dtype,), LINE_EDGES * num_lines, graph.indices, len(graph.indices),
        _offset(graph.indices), rows.row_of, rows.lines, num_lines, slots, fills, entries, rows.starts, rows.degrees,
        rows.indptr, out, device=out.device,
    )  # fmt: skip


def _offset(indices: Tensor) -> int:
    """Return how far behind the beginning of a line of memory an array begins: lines then are read by one request."""
    return (indices.data_ptr() // indices.element_size()) % LINE_EDGES
