"""Hot parts of a graph in memory of a GPU: lines of its rows, found by a set-associative index."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from headrace.ops._arrays import Array
from headrace.ops.cache.set_index import SLOT_BYTES, SetIndex
from headrace.ops.errors import InputError
from headrace.ops.gpu import Event, record, use_here

#: Sources of a line, which a warp copies at once: of int32 what one request over the bus brings.
LINE_EDGES = 32


class LinePlaces(NamedTuple):
    """Where a cache has lines, and where it is to have those that it has not.

    Attributes
    ----------
    slots, fills : torch.Tensor
        int64[num_lines], -1 for nowhere. No slot of `slots` is one of `fills`.
    entries : torch.Tensor
        [num_slots * LINE_EDGES], of the dtype of the indices.
    """

    slots: torch.Tensor
    fills: torch.Tensor
    entries: torch.Tensor


class LineCounts(NamedTuple):
    """What a cache had of the lines that were looked up.

    Attributes
    ----------
    found : torch.Tensor
        int64[2] in memory of the host, hits and lines: there once somebody has waited for the GPU, for whatever came
        behind.
    """

    found: torch.Tensor

    def read(self) -> dict[str, int]:
        """Return hits and misses; somebody has waited."""
        hits, num_lines = self.found.tolist()
        return {"hits": hits, "misses": num_lines - hits}


class LineCache:
    """Lines of a graph's `indices` in memory of a GPU, for `fetch_rows`: 32 sources each.

    `SetIndex` chooses the lines to keep. Threads and streams may share a cache; they use it one after the other.

    Parameters
    ----------
    indices : torch.Tensor
        int32[num_edges] or int64[num_edges], which must not change.
    num_bytes : int
        The largest size of the cache in GPU memory.
    device : torch.device
        The GPU.
    """

    def __init__(self, indices: torch.Tensor, num_bytes: int, device: torch.device) -> None:
        self._indices = indices
        self._device = device
        line_bytes = LINE_EDGES * indices.element_size()
        self._num_lines = len(indices) // LINE_EDGES + 2  # the ends of the array may lie in lines of their own
        self.num_slots = min(num_bytes // (line_bytes + SLOT_BYTES), self._num_lines)
        self._entries = torch.empty(self.num_slots * LINE_EDGES, dtype=indices.dtype, device=device)
        self._index: SetIndex | None = self._empty()
        self._lock = threading.Lock()
        self._last_use: Event = record(device)  # what has emptied it

    def _empty(self) -> SetIndex:
        return SetIndex(self.num_slots, self._device, num_ids=self._num_lines)

    @contextmanager
    def looked_up(self, lines: torch.Tensor) -> Iterator[tuple[LinePlaces, LineCounts]]:
        """Look up lines, int64[n], of which those below 0 are none, and lock the cache.

        It is locked until the kernels that copy and fill lines are launched. The host does not wait.
        """
        with self._lock:
            # What another stream has launched comes first: it may still read slots that are filled now.
            self._last_use.wait()
            use_here([self._entries])
            # If anything goes wrong from here on, nobody knows which slots have their lines.
            index, self._index = self._index or self._empty(), None
            try:
                found = index.look_up(lines)
                counts = (torch.stack([found.slots, lines]) >= 0).sum(1).to("cpu", non_blocking=True)
                yield LinePlaces(found.slots, found.fills, self._entries), LineCounts(counts)
                self._index = index
            finally:
                self._last_use = record(self._device)

    def check_is_for(self, indices: Array, device: torch.device | None, stage: str) -> None:
        """Refuse another array or device.

        Raises
        ------
        InputError
            If the array or the device is another one.
        """
        if device != self._device:
            raise InputError(
                f"{stage}: expected a frontier on {self._device}, where the cache is, got one on "
                f"{device or 'the CPU'}; make a cache for each device"
            )
        same = isinstance(indices, torch.Tensor) and indices.data_ptr() == self._indices.data_ptr()
        if not same or len(indices) != len(self._indices):
            raise InputError(
                f"{stage}: expected the indices that the cache was made for, got others; make a cache for each graph"
            )
