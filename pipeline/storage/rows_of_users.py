"""Rows in memory that a user's source holds as well: what the source writes there later must not change a batch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headrace.ops.forks import ProcessLock

#: torch's count of what holds some memory, which is not in all versions of it.
_num_uses: Callable[[int], int] | None = getattr(torch._C, "_storage_Use_Count", None)  # noqa: SLF001


def _holders(box: list[tuple[Any, ...]]) -> tuple[int, ...]:
    """Return how often what a read returned is held: the tuple, which is in a list, its tensor, and the memory of that.

    The counts of Python depend on its version, and so are compared with those of this function alone.
    """
    returned = box[0]
    rows = returned[0]
    storage = rows.untyped_storage()
    of_memory = 0 if _num_uses is None else _num_uses(storage._cdata)  # noqa: SLF001
    of_tensor = rows._use_count() if hasattr(rows, "_use_count") else 0  # noqa: SLF001
    return sys.getrefcount(returned), sys.getrefcount(rows), of_tensor, of_memory


#: Of rows that nobody else holds.
_ALONE = _holders([(torch.zeros(1, device="cpu"),)])


def _is_of_torch(rows: Tensor) -> bool:
    """Whether memory is torch's own, whose uses it counts, and of this process alone."""
    if rows.device.type != "cpu":
        return True
    return rows.untyped_storage().resizable() and not rows.is_shared()  # type: ignore[no-untyped-call]


class ReturnedMemory:
    """The memory in which one source returns rows.

    Rows that anything else may hold are copied: a buffer that the source writes again, a view of its own array, memory
    of NumPy or of other processes. Reads come one at a time until they are known to return new memory: those of a
    source with a buffer would overwrite each other.
    """

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._is_new = self._is_buffer = False
        self._last: Tensor | None = None

    def own_rows(self, read: Callable[[], tuple[Any, ...]]) -> tuple[Tensor, Any]:
        """Return what a read returns: its rows, in memory that nobody else writes, and its counts."""
        if self._is_new:
            return self._own([read()])
        with self._lock.held():
            return self._own([read()])

    def _own(self, box: list[tuple[Any, ...]]) -> tuple[Tensor, Any]:
        is_alone = _num_uses is not None and _holders(box) == _ALONE
        rows: Tensor = box[0][0]
        counts = box[0][1] if len(box[0]) > 1 else {}
        is_of_torch = _is_of_torch(rows)
        if rows.numel() == 0 or (is_alone and is_of_torch):
            self._is_new |= rows.numel() > 0 and not self._is_buffer
            return rows, counts
        # Nobody counts the uses of other memory. New memory has another address than the last, which is not freed yet.
        last, self._last = self._last, None if is_of_torch else rows
        self._is_buffer |= is_of_torch or (last is not None and last.data_ptr() == rows.data_ptr())
        self._is_new = last is not None and not self._is_buffer
        return rows.clone(memory_format=torch.contiguous_format), counts
