"""All rows of a feature in the memory of a GPU, where there is room for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from headrace.ops.features.gather import gather_rows
from headrace.ops.gpu import Event, record, synchronize, use_here
from headrace.pipeline.storage.rows import Rows, add_counts
from headrace.pipeline.storage.rows_on_gpu import ReadSource

#: Bytes that the host reads at a time, where the GPU does not read the source in place.
BYTES_AT_ONCE = 64 << 20


class WholeOnGpu:
    """All rows, which the first read copies: reads are plain gathers then, without look-ups; see `RowsOnGpu`.

    Parameters
    ----------
    num_rows, row_shape, dtype
        Of the feature.
    device
        The GPU.

    Raises
    ------
    torch.cuda.OutOfMemoryError
        If the GPU has no room for them.
    """

    def __init__(self, num_rows: int, row_shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> None:
        self._device = device
        self._rows = torch.empty((num_rows, *row_shape), dtype=dtype, device=device)
        self._is_filled = False
        self._last_use: Event = record(device)
        self._counts = {"hits": 0, "misses": 0}

    @property
    def capacity(self) -> int:
        """Rows that are kept: all."""
        return len(self._rows)

    def read(self, ids: Tensor, expected: Sequence[Tensor], source: Tensor | ReadSource) -> Rows:
        """Return the rows of ids; ``misses`` counts those that were copied for it, once all, and then none."""
        del expected
        self._last_use.wait()
        use_here([self._rows])
        counts: Mapping[str, int] = {}
        copied = 0
        if not self._is_filled:
            counts = self._fill(source)
            copied = len(self._rows)
            self._is_filled = True
        rows = gather_rows(self._rows, ids, trusted=True)
        self._last_use = record(self._device)
        self._counts["hits"] += len(ids)
        self._counts["misses"] += copied
        return Rows(rows, {**counts, "hits": len(ids), "misses": copied})

    def forget(self) -> None:
        """Copy all rows again at the next read."""
        self._last_use.wait()
        self._is_filled = False
        self._last_use = record(self._device)

    def wait(self) -> None:
        """Let the host wait until all reads are done."""
        self._last_use.wait()
        synchronize(self._device)

    def counts(self) -> dict[str, int]:
        """Return what all reads have counted."""
        return dict(self._counts)

    def _fill(self, source: Tensor | ReadSource) -> Mapping[str, int]:
        """Copy all rows, and return what the source counted."""
        if isinstance(source, Tensor):
            self._rows.copy_(source.detach(), non_blocking=True)
            return {}
        total: dict[str, int] = {}
        row_bytes = self._rows[:1].numel() * self._rows.element_size()
        rows_at_once = max(1, BYTES_AT_ONCE // max(row_bytes, 1))
        for first in range(0, len(self._rows), rows_at_once):
            part = self._rows[first : first + rows_at_once]
            read, counts = source(torch.arange(first, first + len(part), device="cpu"))
            part.copy_(read)
            add_counts(total, counts)
        return total
