"""Rows of edges on a device, which aggregations walk over: twin of ``ops/native/aggregate/edge_rows.cpp``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.faults import Faults
from headrace.cuda.launch import launch

#: Kinds of faults, by their numbers in ``kernels/edge_rows.cu``.
FAULTS = ("wrong ends", "decreases", "no row", "no position")


class EdgeRows(NamedTuple):
    """Rows of edges: those from indptr[i] to indptr[i + 1] belong to row i, and edge e leads to row indices[e].

    Attributes
    ----------
    indptr
        int64[num_rows + 1], as the others on the device or in memory that it reads.
    indices
        int32 or int64[num_edges].
    positions
        [num_edges] of the same dtype, where each edge stands in arrays of edges; None: edge e at e.
    """

    indptr: Tensor
    indices: Tensor
    positions: Tensor | None

    @property
    def num_rows(self) -> int:
        """Rows."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Edges."""
        return len(self.indices)

    @property
    def arguments(self) -> tuple[Tensor, int, Tensor, Tensor | None]:
        """What kernels take of them."""
        return self.indptr, self.num_rows, self.indices, self.positions

    def types(self, values: Tensor) -> tuple[torch.dtype, torch.dtype]:
        """Return the template arguments of most kernels."""
        return values.dtype, self.indices.dtype


def check_edge_rows(rows: EdgeRows, num_others: int, num_positions: int, device: torch.device) -> None:
    """Check that rows of edges are some. Waits for the device.

    Parameters
    ----------
    rows
        With at least one entry of `indptr`.
    num_others
        Rows of the other table.
    num_positions
        Entries of arrays of edges.
    device
        Who looks.

    Raises
    ------
    Fault
        "wrong ends", "decreases" (of a row), "no row" or "no position" (of an edge).
    """
    faults = Faults(FAULTS, device)
    items = max(rows.num_rows, rows.num_edges, 1)
    arguments = (*rows.arguments, rows.num_edges, num_others, num_positions, faults.items)
    launch("check_edge_rows", (rows.indices.dtype,), items, *arguments, device=device)
    faults.check()
