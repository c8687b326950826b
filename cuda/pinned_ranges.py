"""Ranges of memory of the host that this process has pinned, each once, however many want it pinned."""

from __future__ import annotations

import resource
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.cuda.errors import DeviceError

#: What CUDA says of memory that is pinned already, in part at least, or was never.
_ALREADY, _NOT_PINNED = 712, 713
#: Readable by every GPU of the process, at an address of its own; and by GPUs alone, of pages that cannot be written.
_PORTABLE, _MAPPED, _READ_ONLY = 1, 2, 8
#: CUDA's type of memory of the host that is pinned.
_HOST = 1


@dataclass(eq=False)
class _Range:
    """Bytes from one address up to another, and how many want them pinned."""

    begin: int
    end: int
    wanted: int = 1


class PinnedRanges:
    """Pins ranges of memory, and unpins each when nobody wants it any more.

    Parameters
    ----------
    runtime
        CUDA's functions as CuPy has them.
    """

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._failed: type[Any] = runtime.CUDARuntimeError
        self._ranges: list[_Range] = []
        self._lock = threading.Lock()
        # Destructors let go of ranges, and the collector may run them in a thread that has the lock.
        self._let_go: deque[_Range] = deque()

    def pin(self, address: int, size: int) -> Callable[[], None]:
        """Pin some bytes, or count one more who wants the range that they are in; return what takes that back.

        Memory that others have pinned stays so.

        Raises
        ------
        DeviceError
            If memory must not or cannot be pinned: more than the process may lock, or than there is; or if a part of it
            is pinned, as the array is that begins in its midst.
        """
        self._unpin_unwanted()
        try:
            with self._lock:
                found = self._wanted(address, address + size)
                if found is None:
                    return _nothing
        finally:
            self._unpin_unwanted()
        return partial(self._release, deque([found]))

    def _wanted(self, begin: int, end: int) -> _Range | None:
        """Return the range that holds others, pinned and counted, or None if it is pinned by someone else."""
        for one in self._ranges:
            if one.begin <= begin and end <= one.end:
                one.wanted += 1
                return one
            if begin < one.end and one.begin < end:
                raise _partly(begin, end)
        try:
            self._register(begin, end - begin)
        except self._failed as error:
            if error.status != _ALREADY:
                raise DeviceError(
                    f"pin: {end - begin:,} bytes cannot be pinned ({error}); {_limit()}; pin less, or let the CPU "
                    "sample and gather"
                ) from error
            if self._is_pinned(begin) and self._is_pinned(end - 1):
                return None
            raise _partly(begin, end) from error
        self._ranges.append(_Range(begin, end))
        return self._ranges[-1]

    def _register(self, address: int, size: int) -> None:
        try:
            self._runtime.hostRegister(address, size, _PORTABLE | _MAPPED)
        except self._failed as error:
            try:  # a file may be mapped for reading alone
                self._runtime.hostRegister(address, size, _PORTABLE | _MAPPED | _READ_ONLY)
            except self._failed:
                raise error from None

    def _is_pinned(self, address: int) -> bool:
        return bool(self._runtime.pointerGetAttributes(address).type == _HOST)

    def _release(self, held: deque[_Range]) -> None:
        """Let go of the range that a caller holds; when called once more it holds none."""
        with suppress(IndexError):
            self._let_go.append(held.pop())
        self._unpin_unwanted()

    def _unpin_unwanted(self) -> None:
        """Unpin what nobody wants; where the lock is held, whoever holds it does so."""
        while self._let_go and self._lock.acquire(blocking=False):
            try:
                with suppress(IndexError):  # another thread was faster
                    self._count_down(self._let_go.popleft())
            finally:
                self._lock.release()

    def _count_down(self, one: _Range) -> None:
        one.wanted -= 1
        if one.wanted:
            return
        self._ranges.remove(one)
        try:
            self._runtime.hostUnregister(one.begin)
        except self._failed as error:
            if error.status != _NOT_PINNED:
                raise DeviceError(f"pin: memory cannot be unpinned: {error}") from error


def _partly(begin: int, end: int) -> DeviceError:
    return DeviceError(
        f"pin: expected {end - begin:,} bytes of which all or none are pinned, got some that are; pass a copy of the "
        "array, or pin the larger one first"
    )


def _limit() -> str:
    """Return what the system lets a process lock, as text."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return "the system sets no limit" if soft == resource.RLIM_INFINITY else f"ulimit -l allows {soft:,} bytes"


def _nothing() -> None:
    """Unpin nothing."""
