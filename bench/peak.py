"""Peak memory of a call in this process. Linux only."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _kilobytes(field: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise ValueError(f"expected {field} in {STATUS}")


def peak_memory(call: Callable[[], object]) -> float:
    """Return by how many bytes the memory of the process grew at most while it was called."""
    gc.collect()
    RESET.write_text("5")  # the high-water mark is what is held now
    before = _kilobytes("VmRSS:")
    call()
    return (_kilobytes("VmHWM:") - before) * 1024
