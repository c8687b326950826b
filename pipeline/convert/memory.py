"""How much memory a command may take, and what of it is left for arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from headrace.ops import InputError
from headrace.pipeline.storage.array_file import let_pages_go

#: What Python, torch and the system's buffers take beside arrays that are counted.
APART = 48 << 20

#: Rows that are read at a time, at most: more do not make anything faster.
MOST_ROWS = 1 << 20

#: Bytes of mapped files that may be read before a thread sees it: 4,096 rows of a fingerprint with the 64 KiB around
#: each, or some hundredths of a second at the rate of memory.
MARGIN = 320 << 20

_LOOKS_EVERY = 0.002


def room(memory: int, least: int = 32 << 20, *, what: str = "convert") -> int:
    """Return the bytes that arrays may have of a limit for the whole process, which are at least so many.

    Raises
    ------
    InputError
        If the process has nearly that much already.
    """
    left = memory - resident() - APART
    if left < least:
        apart = resident() + APART
        needed = apart + least + (32 << 20)
        size = f"{-(-needed // 10**6)}MB"
        raise InputError(
            f"{what}: expected memory for the libraries, which take {apart:,} bytes, and {least:,} bytes for "
            f"arrays, got {memory:,} bytes; give at least {needed:,} bytes, as memory={size!r} (--memory {size})"
        )
    return left


def resident() -> int:
    """Return the bytes of memory that this process has; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - read once a pass
            pages = int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    import resource

    return pages * resource.getpagesize()


@contextmanager
def maps_within(memory: int | None) -> Iterator[None]:
    """Let go of pages of mapped files, while the block runs, before the process has so many bytes of memory.

    A thread looks: kernels read whole files in one call. None is no limit.
    """
    if memory is None:
        yield
        return
    ends, most = Event(), memory - MARGIN

    def look() -> None:
        while not ends.wait(_LOOKS_EVERY):
            if resident() > most:
                let_pages_go()

    thread = Thread(target=look, name="headrace maps", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def rows_within(num_bytes: int, row_bytes: int) -> int:
    """Return how many rows fit, at least one and at most `MOST_ROWS`."""
    return max(1, min(MOST_ROWS, num_bytes // max(1, row_bytes)))
