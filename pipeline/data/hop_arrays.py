"""What hops read of a graph, in whose memory it may be."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.ops.gpu import placed
from headrace.ops.sampling.typed_rows import TypedRows


class HopArrays(NamedTuple):
    """What hops read of a graph, in memory of the CPU, or in that of a GPU or pinned in that of the CPU.

    Parameters
    ----------
    indptr: int64[num_nodes + 1]
        With types that of `rows`.
    indices: int32[num_edges] or int64[num_edges]
    edge_ids: int32[num_edges] or int64[num_edges], optional
    times: int64[num_edges], optional
        By which rows are sorted.
    rows
        Those of a graph with types.
    """

    indptr: Tensor
    indices: Tensor
    edge_ids: Tensor | None
    times: Tensor | None
    rows: TypedRows | None

    @property
    def num_bytes(self) -> int:
        """Bytes that they take."""
        return sum(array.nbytes for array in self[:4] if array is not None)

    def on(self, device: torch.device) -> HopArrays:
        """Return them where a GPU reads them: there if they fit, else pinned in CPU memory."""
        indptr, indices, edge_ids, times = placed(self[:4], device)
        assert indptr is not None
        assert indices is not None
        rows = None if self.rows is None else replace(self.rows, row_ptr=indptr)
        return HopArrays(indptr, indices, edge_ids, times, rows)
