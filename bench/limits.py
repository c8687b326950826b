"""What the memory of this machine allows: a straight copy, random reads, and a chain of dependent loads.

Compiled from probe.cpp on first use, into bench/cache.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from functools import cache
from pathlib import Path

import numpy as np
import torch
from graphs import CACHE
from numpy.typing import NDArray

SOURCE = Path(__file__).resolve().parent / "probe.cpp"
STEPS = 2_000_000


@cache
def _library() -> ctypes.CDLL:
    built = CACHE / "libprobe.so"
    if not built.exists() or built.stat().st_mtime < SOURCE.stat().st_mtime:
        CACHE.mkdir(parents=True, exist_ok=True)
        compiler = os.environ.get("CXX", "c++")
        subprocess.run(
            [compiler, "-O3", "-std=c++17", "-shared", "-fPIC", "-pthread", str(SOURCE), "-o", str(built)], check=True
        )
    library = ctypes.CDLL(str(built))
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    library.chase.argtypes, library.chase.restype = [pointer, size], size
    library.read_rows.argtypes, library.read_rows.restype = [pointer, size, pointer, size, ctypes.c_int], size
    library.copy.argtypes, library.copy.restype = [pointer, pointer, size, ctypes.c_int], None
    return library


def chain(num_words: int, seed: int = 0) -> NDArray[np.int64]:
    """Return a cycle through all words: place -> next place, int64[num_words]; it takes 8 bytes a word."""
    order = np.random.default_rng(seed).permutation(num_words)
    following = np.empty(num_words, np.int64)
    following[order] = np.roll(order, -1)
    return following


def latency(following: NDArray[np.int64]) -> float:
    """Return the seconds of one load whose address the load before it gave."""
    started = time.perf_counter()
    _library().chase(following.ctypes.data, STEPS)
    return (time.perf_counter() - started) / STEPS


def reading(table: torch.Tensor, ids: torch.Tensor, threads: int) -> float:
    """Return the seconds of reading (a word of every cache line of) the rows `ids`, int64[n], of a contiguous table."""
    assert table.is_contiguous()
    assert ids.dtype == torch.int64
    row_bytes = table.stride(0) * table.element_size()
    started = time.perf_counter()
    _library().read_rows(table.data_ptr(), row_bytes, ids.data_ptr(), ids.numel(), threads)
    return time.perf_counter() - started


def copying(source: torch.Tensor, out: torch.Tensor, threads: int) -> float:
    """Return the seconds of copying the first bytes of `source` over `out`."""
    num_bytes = out.numel() * out.element_size()
    assert source.numel() * source.element_size() >= num_bytes
    started = time.perf_counter()
    _library().copy(out.data_ptr(), source.data_ptr(), num_bytes, threads)
    return time.perf_counter() - started
