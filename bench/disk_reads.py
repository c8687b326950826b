"""Raw random reads of a file, which say what its disk gives; and a file that the page cache has forgotten.

Compiled from disk_probe.cpp on first use, into bench/cache.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
from graphs import CACHE
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parent / "ops" / "native"


@cache
def _library() -> ctypes.CDLL:
    built = CACHE / "libdisk_probe.so"
    sources = [HERE / "disk_probe.cpp", NATIVE / "disk" / "io_uring.cpp"]
    if not built.exists() or built.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        CACHE.mkdir(parents=True, exist_ok=True)
        flags = ["-O2", "-std=c++17", "-shared", "-fPIC", "-pthread", f"-I{NATIVE}"]
        command = [os.environ.get("CXX", "c++"), *flags, *map(str, sources), "-o", str(built)]
        subprocess.run(command, check=True)
    library = ctypes.CDLL(str(built))
    size = ctypes.c_int64
    library.read_at.argtypes = [ctypes.c_char_p, ctypes.c_void_p, size, size, *[ctypes.c_int] * 3]
    library.read_at.restype = ctypes.c_double
    return library


def raw_rate(path: Path, offsets: NDArray[np.int64], num_bytes: int, *, depth: int, direct: bool) -> float:
    """Return reads a second: the better one of threads that wait and io_uring, each with half of the offsets.

    Raises
    ------
    OSError
        If a read failed.
    """
    rates = []
    for io_uring, half in enumerate(np.array_split(offsets, 2)):
        forget(path)
        chosen = np.ascontiguousarray(half)
        seconds = _library().read_at(
            os.fsencode(path), chosen.ctypes.data, len(chosen), num_bytes, depth, int(direct), io_uring
        )
        if seconds > 0:
            rates.append(len(chosen) / seconds)
        elif not io_uring:
            raise OSError(f"cannot read {path}")
    return max(rates)


def forget(path: Path) -> None:
    """Drop a file that is on disk whole from the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
