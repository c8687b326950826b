"""Rows of a frontier on a device, copied out of a graph that lies in memory of the host."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.faults import Faults
from headrace.cuda.hop import Frontier, GpuGraph, find_segments
from headrace.cuda.launch import launch

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
    num_edges
        Of all rows.
    first
        int64[num_dst + 1]: lines of row i are lines[first[i]], ..., lines[first[i + 1] - 1].
    row_of, lines
        int64[num_lines]; a line that two rows share is there twice.
    """

    indptr: Tensor
    starts: Tensor
    degrees: Tensor
    num_edges: int
    first: Tensor
    row_of: Tensor
    lines: Tensor


def find_lines(graph: GpuGraph, nodes: Tensor, faults: Faults) -> RowLines:
    """Find the rows of nodes, int64[num_dst], and their lines. Waits for the device.

    Raises
    ------
    Fault
        One of the kinds of `headrace.cuda.hop.FAULTS`, which `faults` has.
    """
    device, num_dst = nodes.device, len(nodes)
    segments = find_segments(graph, Frontier(nodes), faults)
    offset = _offset(graph.indices)
    counts = torch.empty(num_dst, dtype=torch.int64, device=device)
    launch("count_lines", (), num_dst, segments.starts, segments.degrees, num_dst, offset, counts, device=device)
    indptr, first = (torch.zeros(num_dst + 1, dtype=torch.int64, device=device) for _ in range(2))
    torch.cumsum(segments.degrees, 0, out=indptr[1:])
    torch.cumsum(counts, 0, out=first[1:])
    num_edges, num_lines = faults.check(indptr[-1], first[-1])
    row_of = torch.repeat_interleave(counts, output_size=num_lines)
    lines = torch.empty(num_lines, dtype=torch.int64, device=device)
    launch("list_lines", (), num_lines, segments.starts, offset, first, row_of, num_lines, lines, device=device)
    return RowLines(indptr, segments.starts, segments.degrees, num_edges, first, row_of, lines)


def copy_lines(graph: GpuGraph, rows: RowLines, cached: tuple[Tensor, Tensor, Tensor] | None, out: Tensor) -> None:
    """Copy the sources of rows to `out`, [num_edges], one row behind the other.

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
