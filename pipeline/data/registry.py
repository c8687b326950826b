"""Functions of wings above, which methods of graphs, blocks and batches call: those wings register them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from headrace.ops.names import load

F = TypeVar("F", bound=Callable[..., Any])

_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def register(function: F) -> F:
    """Register a function under its name."""
    _FUNCTIONS[function.__name__] = function
    return function


def registered(name: str) -> Callable[..., Any]:
    """Return a function of a wing above, which is imported where a program has imported nothing but values."""
    if name not in _FUNCTIONS:
        load("headrace.pipeline.public")
    return _FUNCTIONS[name]
