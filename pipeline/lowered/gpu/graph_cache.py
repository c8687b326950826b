"""Room for hot parts of a graph in memory of a GPU, which the hops of a plan share."""

from __future__ import annotations

import threading
import warnings
from functools import partial

import torch
from torch import Tensor

from headrace.ops.cache.line_cache import LineCache
from headrace.ops.memory_promises import Promise


class GraphCache:
    """A cache of lines of a graph's rows, made when it is used first, on the GPU where that is.

    Compares by its size: what it holds changes no minibatch.

    Parameters
    ----------
    num_bytes
        What it may take of the GPU's memory.
    index
        The number of the GPU.
    """

    def __init__(self, num_bytes: int, index: int = 0) -> None:
        self.num_bytes = num_bytes
        self._taken = [0]
        self._promise = Promise(num_bytes, partial(sum, self._taken), place=index)
        self._lock = threading.Lock()
        self._is_made = False
        self._cache: LineCache | None = None

    def of(self, indices: Tensor, device: torch.device) -> LineCache | None:
        """Return the cache of a graph's indices on a device; None where there is no room for any."""
        with self._lock:
            if not self._is_made:
                self._cache = self._made(indices, device)
                self._is_made = True
                self._taken[0] = self.num_bytes
            return self._cache

    def _made(self, indices: Tensor, device: torch.device) -> LineCache | None:
        """Take half as much for as long as the device has not as much: other programs may have memory there."""
        num_bytes = self.num_bytes
        while num_bytes:
            try:
                cache = LineCache(indices, num_bytes, device)
            except torch.cuda.OutOfMemoryError:
                num_bytes //= 2
                continue
            if num_bytes < self.num_bytes:
                self._warn(f"it has {num_bytes:,}", device)
            return cache if cache.num_slots else None
        self._warn("rows come over the bus", device)
        return None

    def _warn(self, outcome: str, device: torch.device) -> None:
        warnings.warn(
            f"graph_cache: expected {self.num_bytes:,} bytes of free memory on {device} for a cache of the graph, "
            f"where there is less; {outcome}",
            UserWarning,
            stacklevel=2,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphCache) and self.num_bytes == other.num_bytes

    def __hash__(self) -> int:
        return hash(self.num_bytes)

    def __repr__(self) -> str:
        return f"GraphCache({self.num_bytes:,} bytes)"
