"""Arrays of a graph where GPUs read them, placed once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from headrace.ops.borrowed import Borrowed
from headrace.pipeline.data.hop_arrays import HopArrays

Arrays = TypeVar("Arrays", bound="tuple[Any, ...]")

#: Threads that sample at once place the arrays of a graph once: a second copy might have no room.
_PLACING = threading.Lock()


def placed_once(tables: dict[str, Any], name: str, place: Callable[[], Arrays]) -> Arrays:
    """Return the arrays of a name, placed when they are first asked for, and again where torch has moved them."""
    with _PLACING:
        known: Arrays | None = tables.get(name)
        addresses: Borrowed | None = tables.get(f"addresses of {name}")
        if known is None or (addresses is not None and addresses.moved()):
            known = tables[name] = place()
            tables[f"addresses of {name}"] = Borrowed(known)
    return known


def is_on_gpu(tables: dict[str, Any], index: int | None) -> bool:
    """Whether the arrays of a graph were copied to a GPU, named by its number, or for None to any."""
    with _PLACING:
        values = list(tables.values())
    known = [arrays.indices for arrays in values if isinstance(arrays, HopArrays)]
    return any(there.is_cuda and index in (None, there.device.index) for there in known)
