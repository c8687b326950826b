"""Arrays of a graph where GPUs read them, placed once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

from headrace.ops.borrowed import Borrowed
from headrace.pipeline.data.hop_arrays import HopArrays

Arrays = TypeVar("Arrays", bound="tuple[Any, ...]")

#: Threads that sample at once place the arrays of a graph once: a second copy might have no room.
_PLACING = threading.Lock()


def placed_once(tables: dict[str, Any], name: str, place: Callable[[], Arrays]) -> Arrays:
    """Return the arrays of a name, placed when they are first asked for, and again where torch has moved them."""
    with _PLACING:
        known: tuple[Arrays, Borrowed] | None = tables.get(name)
        if known is None or known[1].moved():
            made = place()
            known = tables[name] = made, Borrowed(array for array in made if isinstance(array, Tensor))
    return known[0]


def is_on_gpu(tables: dict[str, Any], index: int | None) -> bool:
    """Whether the arrays of a graph were copied to a GPU, named by its number, or for None to any."""
    with _PLACING:
        values = list(tables.values())
    known = [one[0].indices for one in values if isinstance(one, tuple) and isinstance(one[0], HopArrays)]
    return any(there.is_cuda and index in (None, there.device.index) for there in known)
