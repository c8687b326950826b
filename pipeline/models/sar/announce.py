"""What ranks say of an aggregation before its rows travel, so that those that part are found out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

#: The layer of a model that runs, by the name that it has there; "" outside of the layers that `wrap` has replaced.
_LAYER: ContextVar[str] = ContextVar("headrace_sar_layer", default="")


@contextmanager
def inside(layer: str) -> Iterator[None]:
    """Let aggregations be those of a layer."""
    token = _LAYER.set(layer)
    try:
        yield
    finally:
        _LAYER.reset(token)


def described(operation: str, names: Sequence[str], needed: Sequence[bool]) -> str:
    """Say what is computed, in which layer, and what will have gradients; the same on all ranks.

    Parameters
    ----------
    operation
        What it is.
    names, needed
        Its inputs, and which of them need gradients.
    """
    layer = _LAYER.get()
    asked = [name for name, one in zip(names, needed, strict=True) if one]
    gradients = f"gradients for {' and '.join(asked)}" if asked else "no gradients"
    return f"{operation}{f' in layer {layer}' if layer else ''} ({gradients})"


def sizes(tables: Sequence[Tensor]) -> str:
    """Say how many bytes the rows of some tables have, whether there are any or not."""
    return " and ".join(str(math.prod(table.shape[1:]) * table.element_size()) for table in tables)
