"""Memory that a process has freed, kept for its next tensors."""

from __future__ import annotations

import ctypes
from typing import Any

#: Parameters of glibc's mallopt, and values: nothing returns to the system, no block is a map of its own, which would
#: return at once, and memory grows by steps, so that a slightly larger tensor fits where one was.
_KEEPING = {"M_TRIM_THRESHOLD": (-1, -1), "M_MMAP_MAX": (-4, 0), "M_TOP_PAD": (-2, 256 << 20)}


#: Bytes of the largest tensors whose memory glibc may keep by itself.
LARGE_BYTES = 32 << 20

_keeps = False


def returns_freed_memory() -> bool:
    """Whether the C library returns memory of large tensors to the system, and can be told to keep it."""
    return not _keeps and _mallopt() is not None


def keep_freed_memory() -> bool:
    """Keep memory that this process frees, so that the next tensors need no new pages.

    Where torch frees a tensor of more than 32 MB, glibc returns it to the system; the next batch gets new pages, which
    the kernel fills with zeros at the first write. That can take as long as the arithmetic of a layer: an epoch of
    GraphSAGE took 0.87 of the time without it, and one with PyG's layers half (``bench/training.py``). The process then
    stays as large as it once was. Call it once, before training; it holds for the whole process, and not for those that
    it starts. On GPUs torch keeps memory by itself. ``loader.explain()`` names it where it may help.

    >>> import headrace as hr
    >>> kept = hr.keep_freed_memory()  # once, before training

    Returns
    -------
    bool
        Whether the C library does so: glibc, which most distributions of Linux have, without another allocator in its
        place. False changes nothing.
    """
    global _keeps  # noqa: PLW0603 - of the process, as what it says
    mallopt = _mallopt()
    _keeps = mallopt is not None and all(mallopt(parameter, value) == 1 for parameter, value in _KEEPING.values())
    return _keeps


def _mallopt() -> Any:
    """Return glibc's function; None where there is another C library, or another allocator in its place."""
    try:
        process, libc = ctypes.CDLL(None), ctypes.CDLL("libc.so.6")
        if _address(process.malloc) != _address(libc.malloc):  # jemalloc or the like, by LD_PRELOAD
            return None
    except (AttributeError, OSError, TypeError):  # Windows names no library of the process itself
        return None
    return libc.mallopt


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value
