"""Memory of rows that sources of users return: what the source may write again must not change a batch."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headrace.ops.forks import ProcessLock

#: torch's count of what holds some memory, where this torch also says whether the memory is its own, which is counted.
_num_uses: Callable[[int], int] | None = (
    getattr(torch._C, "_storage_Use_Count", None) if hasattr(torch.UntypedStorage, "resizable") else None  # noqa: SLF001
)

#: Seconds without any finished read, after which a read no longer waits for another one.
_PATIENCE = 5.0

#: Reads, and their bytes, by which memory that nobody counts is known to be new each time.
_MOST_READS, _MOST_BYTES = 8, 1 << 26


_has_use_count = hasattr(Tensor, "_use_count")


def _holders(box: list[tuple[Any, ...]], storage: Any) -> tuple[int, int, int, int]:
    """Return how often what a read returned is held: the tuple, which is in a list, its tensor, and the memory of that.

    The counts of Python depend on its version, and so are compared with those of this function alone.
    """
    returned = box[0]
    rows = returned[0]
    of_memory = 0 if _num_uses is None else _num_uses(storage._cdata)  # noqa: SLF001
    of_tensor = rows._use_count() if _has_use_count else 0  # noqa: SLF001
    return sys.getrefcount(returned), sys.getrefcount(rows), of_tensor, of_memory


def _held_once() -> tuple[int, int, int, int]:
    box: list[tuple[Any, ...]] = [(torch.zeros(1, device="cpu"), {})]
    return _holders(box, box[0][0].untyped_storage())


#: Of rows that nobody else holds.
_ALONE = _held_once()


class ReturnedMemory:
    """The memory in which one source returns rows.

    Rows that anything else may hold are copied: a buffer that the source writes again, a view of its own array, memory
    of other processes. From the first such rows on, reads come one at a time, as they may share a buffer; one that
    finds out beside others reads once more. Reads that wait for each other go on after some seconds.
    """

    def __init__(self) -> None:
        self._lock = ProcessLock(threading.RLock)  # a read may read the same source
        self._running: dict[object, int] = {}  # reads that heed no lock, with their threads
        self._begun = itertools.count()
        self._num_ended = 0
        self._shares = self._waits = False
        self._uncounted: list[Tensor] | None = []  # memory that nobody counts; None once it is known
        self._shares_uncounted = False

    def own_rows(self, read: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return what a read returns, with rows in memory that nobody else writes."""
        token = object()
        self._running[token] = threading.get_ident()  # before it looks, so that nobody misses it
        if self._shares and not self._waits:
            self._running.pop(token, None)
            return self._one_at_a_time(read)
        begun, was_alone = next(self._begun), len(self._running) == 1
        try:
            box = [read()]
            if self._is_new(box, box[0][0].untyped_storage()):
                return box[0]
            owned = _with_copy(box[0])
            self._shares = True
            is_alone = was_alone and next(self._begun) == begun + 1 and len(self._running) == 1
        finally:
            self._running.pop(token, None)
        return owned if is_alone or self._waits else self._one_at_a_time(read)

    def _one_at_a_time(self, read: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        lock, num_ended = self._lock.held(), self._num_ended
        while not lock.acquire(timeout=_PATIENCE):
            if self._num_ended == num_ended:  # the read that runs may wait for this one
                self._waits = True
                return _with_copy(read())
            num_ended = self._num_ended
        try:
            self._let_others_end()
            box = [read()]
            return box[0] if self._is_new(box, box[0][0].untyped_storage()) else _with_copy(box[0])
        finally:
            self._num_ended += 1
            lock.release()

    def _let_others_end(self) -> None:
        """Wait for reads of other threads that began before it was known that reads come one at a time."""
        this = threading.get_ident()
        until = time.monotonic() + _PATIENCE
        while self._running and any(thread != this for thread in list(self._running.values())):
            if time.monotonic() > until:
                self._running.clear()  # of a process that this one was forked from, or waiting for this read
            time.sleep(1e-4)

    def _is_new(self, box: list[tuple[Any, ...]], storage: Any) -> bool:
        """Whether rows are in memory that only the answer holds."""
        if _num_uses is None or _holders(box, storage) != _ALONE:
            return bool(box[0][0].numel() == 0)
        if storage.device.type != "cpu":
            return True
        if storage.resizable():
            return not storage.is_shared()
        return not storage.is_shared() and self._is_new_uncounted(box[0][0], storage)

    def _is_new_uncounted(self, rows: Tensor, storage: Any) -> bool:
        """Whether memory of NumPy, of which nobody counts the uses, was another one at each of the first reads.

        Those are kept until then, so that new memory has another address. Slices of one array follow each other
        without a gap, in which memory that was allocated alone has its size.
        """
        seen = self._uncounted
        if seen is None:
            return not self._shares_uncounted
        begin, end = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
        for other in seen:
            first = other.data_ptr()
            if begin <= first + other.nbytes and first <= end:
                self._uncounted, self._shares_uncounted = None, True
                return False
        seen.append(rows)
        if len(seen) >= _MOST_READS or (len(seen) > 2 and sum(one.nbytes for one in seen) > _MOST_BYTES):
            self._uncounted = None
            self._shares = False  # all that was copied is new
        return False


def _with_copy(returned: tuple[Any, ...]) -> tuple[Any, ...]:
    return returned[0].clone(memory_format=torch.contiguous_format), *returned[1:]
