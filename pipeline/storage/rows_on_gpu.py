"""What a cache keeps on a GPU: copies of rows, and the ids of reads to come."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.ops.cache.set_index import SetIndex
from headrace.ops.features.cached_rows import gather_cached, missing_ids
from headrace.ops.gpu import Event, record, side_stream, synchronize, use_here
from headrace.ops.warn_user import warn_user
from headrace.pipeline.storage.rows import Rows

#: Reads rows of ids in CPU memory from where all of them are.
ReadSource = Callable[[Tensor], Rows]


class RowsOnGpu:
    """Copies of some rows, and what finds them. Reads come one after the other.

    Parameters
    ----------
    num_rows
        Rows that there are.
    row_shape, dtype
        Of each.
    capacity
        Rows to keep; fewer, with a warning, where the GPU has no room for so many.
    device
        The GPU.
    """

    def __init__(
        self, num_rows: int, row_shape: Sequence[int], dtype: torch.dtype, capacity: int, device: torch.device
    ) -> None:
        self._device = device
        self._rows, self._index = _allocate(num_rows, row_shape, dtype, capacity, device)
        if self.capacity < capacity:
            warn_user(
                f"CachedFeature: {device} has room for {self.capacity:,} of {capacity:,} rows, and the cache is "
                "that much smaller; give it fewer rows= or bytes=",
            )
        self._last_use: Event = record(device)
        self._counted = {"hits": 0, "misses": 0}

    @property
    def capacity(self) -> int:
        """Rows that are kept at most."""
        return len(self._rows)

    def read(self, ids: Tensor, expected: Sequence[Tensor], source: Tensor | ReadSource) -> Rows:
        """Return the rows of ids, and what was counted: of this read or of earlier ones, as far as the host knows it.

        Parameters
        ----------
        ids: int32[n] or int64[n]
            On the GPU; all have rows.
        expected
            Those of the reads to come, the nearest first.
        source
            All rows, where the GPU reads them in place: then nobody waits. Or what reads those that are missing.
        """
        # What another stream has launched comes first: it may still read slots that are filled now.
        self._last_use.wait()
        use_here([self._rows])
        try:
            lookup = self._index.look_up(ids, expected, keep_found=False)
            counts: Mapping[str, int]
            if isinstance(source, Tensor):
                rows, counts = gather_cached(self._rows, lookup, source, ids), {}
            else:
                missing, positions = missing_ids(lookup, ids)
                read, counts = source(missing)
                rows = gather_cached(self._rows, lookup, read.to(self._device), positions)
        except BaseException:
            self.forget()  # nobody knows which slots have their rows
            raise
        self._last_use = record(self._device)
        return Rows(rows, {**counts, **self._newly_known()})

    def forget(self) -> None:
        """Keep nothing of what was read so far."""
        self._last_use.wait()
        self._index.clear()
        self._last_use = record(self._device)

    def wait(self) -> None:
        """Let the host wait until all reads are done."""
        self._last_use.wait()
        synchronize(self._device)

    def counts(self) -> dict[str, int]:
        """Return what all reads have counted. The host waits for that."""
        self._last_use.wait()
        return self._index.counts()

    def _newly_known(self) -> dict[str, int]:
        """Return the hits and misses that the host has learnt of since it was asked last."""
        before, self._counted = self._counted, self._index.known_counts()
        return {name: count - before[name] for name, count in self._counted.items()}


def _allocate(
    num_rows: int, row_shape: Sequence[int], dtype: torch.dtype, capacity: int, device: torch.device
) -> tuple[Tensor, SetIndex]:
    """Return room for so many rows, or for as many as the GPU has memory for."""
    while True:
        try:
            rows = torch.empty((capacity, *row_shape), dtype=dtype, device=device)
            return rows, SetIndex(capacity, device, num_ids=num_rows)
        except torch.cuda.OutOfMemoryError:
            if capacity == 0:
                raise
        rows = torch.empty(0, device="cpu")  # what had room makes room for the next try
        capacity //= 2


#: So many reads to come are looked at: a cache goes through each of them for every read.
READS_IN_VIEW = 16

#: An expected read is given up when so many that were expected behind it have come.
MOST_OVERDUE = 64


class _Expected(NamedTuple):
    """The ids of a read, on their way to a GPU, and the event behind which they are there."""

    ids: Tensor
    event: Event


class ExpectedReads:
    """Reads in the order in which they are expected; their ids are on a GPU. Several threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: deque[_Expected] = deque()

    def __len__(self) -> int:
        return len(self._expected)

    def add(self, ids: Tensor, device: torch.device) -> None:
        """Expect a read behind those that are expected; ids of the host go to a GPU, and nobody waits for that."""
        on_host = device.type == "cuda" and ids.is_cpu
        ids = ids.pin_memory() if on_host else ids
        # The current stream may be that of the training loop, behind whose kernels ids of the host need not come.
        with side_stream(device, behind_current=not on_host):
            coming = _Expected(ids.to(device, non_blocking=True), record(device))
        with self._lock:
            self._expected.append(coming)

    def take(self, num_ids: int) -> None:
        """Let the read at hand be over: the oldest that has as many ids, as to compare these somebody would wait."""
        with self._lock:
            place = next((place for place, one in enumerate(self._expected) if len(one.ids) == num_ids), None)
            if place is None:
                return
            del self._expected[place]
            for _ in range(place - MOST_OVERDUE):
                self._expected.popleft()

    def on(self, device: torch.device) -> list[Tensor]:
        """Return the ids of the next reads that are expected on a GPU, for use on the current stream."""
        with self._lock:
            expected = [one for one in self._expected if one.ids.device == device][:READS_IN_VIEW]
        for one in expected:
            one.event.wait()
        use_here(one.ids for one in expected)
        return [one.ids for one in expected]

    def clear(self) -> None:
        """Expect no read."""
        with self._lock:
            self._expected.clear()
