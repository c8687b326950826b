"""The edges into chosen nodes, as places in the graph's arrays: a piece of bounded size at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from headrace.ops._arrays import Array
from headrace.ops.features.gather import gather_rows

#: Edges of a piece: what is held beside the result is about 24 bytes for each.
PIECE_EDGES = 1 << 19


def row_starts(indptr: Array, rows: Array) -> torch.Tensor:
    """Return where the in-edges of each of some nodes start when those of all of them follow each other.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    rows : torch.Tensor or numpy.ndarray
        int32[num_rows] or int64[num_rows], nodes in any order.

    Returns
    -------
    torch.Tensor
        int64[num_rows + 1], from 0 to the number of their edges.

    Raises
    ------
    InputError
        For a node that there is not.
    """
    starts = torch.zeros(len(rows) + 1, dtype=torch.int64, device="cpu")
    gather_rows(indptr[1:], rows, out=starts[1:])
    starts[1:] -= gather_rows(indptr, rows)
    return starts.cumsum_(0)


def starts_of(counts: torch.Tensor) -> torch.Tensor:
    """Return where parts of some sizes start when they follow each other, on the device of the sizes.

    Of bool[n] it is how many are true before each place: ``starts_of(kept)[indptr]`` are the starts of rows of which
    some edges are kept.

    Parameters
    ----------
    counts : torch.Tensor
        int64[n] or bool[n].

    Returns
    -------
    torch.Tensor
        int64[n + 1], from 0 to their sum.
    """
    starts = torch.zeros(len(counts) + 1, dtype=torch.int64, device=counts.device)
    torch.cumsum(counts, 0, out=starts[1:])
    return starts


def edge_positions(indptr: Array, rows: Array, starts: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield the places, in a graph's arrays, of the in-edges of some nodes; a hub's may lie in several pieces.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    rows, starts : torch.Tensor or numpy.ndarray, and torch.Tensor
        The nodes, and what `row_starts` returned for them.

    Yields
    ------
    tuple of slice and torch.Tensor
        Which of the nodes' edges, and int64[n], where the graph has them; n is `PIECE_EDGES` at most.
    """
    num_edges = int(starts[-1])
    for low in range(0, num_edges, PIECE_EDGES):
        high = min(low + PIECE_EDGES, num_edges)
        first = int(torch.searchsorted(starts, low, right=True)) - 1
        last = int(torch.searchsorted(starts, high))
        counts = starts[first : last + 1].clamp(low, high).diff()
        positions = torch.arange(low, high, device="cpu")
        shifts = gather_rows(indptr, rows[first:last]) - starts[first:last]
        positions += torch.repeat_interleave(shifts, counts)
        yield slice(low, high), positions
