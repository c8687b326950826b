"""Reads to come, as a cache on a GPU wants to know them."""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.ops.gpu import Event, record, side_stream, use_here

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
