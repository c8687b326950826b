"""Ranges of memory of the host that this process has pinned, each once, however many want it pinned."""

from __future__ import annotations

import resource
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from headrace.cuda.errors import DeviceError

#: What CUDA says of memory that is pinned already, in part at least, or was never.
_ALREADY, _NOT_PINNED = 712, 713
#: Readable by every GPU of the process, at an address of its own; and by GPUs alone, of pages that cannot be written.
_PORTABLE, _MAPPED, _READ_ONLY = 1, 2, 8
#: CUDA's type of memory of the host that is pinned.
_HOST = 1
#: cudaDevAttrCanUseHostPointerForRegisteredMem.
_READS_AT_THE_SAME_ADDRESS = 91


class Storage(Protocol):
    """Memory of tensors, as torch has it: ``tensor.untyped_storage()``."""

    def data_ptr(self) -> int:
        """Return its address, another one after torch has moved it, as ``share_memory_()`` does."""

    def nbytes(self) -> int:
        """Return its size."""


@dataclass(eq=False)
class _Range:
    """Bytes from one address up to another, the storage that had them when they were pinned, and how many want them."""

    begin: int
    end: int
    storage: Storage
    wanted: int = 1

    @property
    def is_stale(self) -> bool:
        """Whether torch has given these bytes back: whatever is there now is not pinned."""
        return self.storage.data_ptr() != self.begin or self.storage.nbytes() < self.end - self.begin


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
        self._addresses_checked = False
        self._lock = threading.Lock()
        # Destructors let go of ranges, and the collector may run them in a thread that has the lock.
        self._let_go: deque[_Range] = deque()

    def pin(self, storage: Storage) -> Callable[[], None]:
        """Pin memory, or count one more who wants the range that it is in; return what takes that back.

        Memory that others have pinned stays so. The storage lives until nobody wants it pinned.

        Raises
        ------
        DeviceError
            If memory must not or cannot be pinned: more than the process may lock, or than there is; if a part of it is
            pinned, as the array is that begins in its midst; or if GPUs see pinned memory at other addresses, as some
            do under Windows.
        """
        self._unpin_unwanted()
        try:
            with self._lock:
                found = self._wanted(storage)
                if found is None:
                    return _nothing
        finally:
            self._unpin_unwanted()
        return partial(self._release, deque([found]))

    def _wanted(self, storage: Storage) -> _Range | None:
        """Return the range that holds the memory, pinned and counted, or None if it is pinned by someone else."""
        begin = storage.data_ptr()
        end = begin + storage.nbytes()
        self._forget_stale()
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
        self._ranges.append(_Range(begin, end, storage))
        return self._ranges[-1]

    def _forget_stale(self) -> None:
        """Unpin ranges whose memory torch has moved: what it was given to since would pass for pinned."""
        for one in [one for one in self._ranges if one.is_stale]:
            self._ranges.remove(one)
            with suppress(self._failed):  # the driver may have noticed that the memory is gone
                self._runtime.hostUnregister(one.begin)

    def _check_addresses(self) -> None:
        """Refuse to pin where kernels, which take addresses of the host, would read elsewhere."""
        runtime = self._runtime
        for device in range(runtime.getDeviceCount()):
            if not runtime.deviceGetAttribute(_READS_AT_THE_SAME_ADDRESS, device):
                raise DeviceError(
                    f"pin: expected GPUs that read pinned memory at the address that the host has, got cuda:{device}, "
                    "which does not, as under WSL; pass tensors made by pin_memory(), or copy them to the GPU"
                )

    def _register(self, address: int, size: int) -> None:
        if not self._addresses_checked:
            self._check_addresses()
            self._addresses_checked = True
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
        if one.wanted or one not in self._ranges:
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
