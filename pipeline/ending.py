"""What has to end while Python is whole, and in which order: worker threads, then the channels that they use.

A thread of a kernel or of a process group that comes back to Python later, only to free a tensor, brings the process
down.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextlib import ExitStack

_WORKERS: list[Callable[[], None]] = []
_CHANNELS: list[Callable[[], None]] = []


def ends_workers(function: Callable[[], None]) -> Callable[[], None]:
    """Have a function called when Python begins to end; it waits for worker threads."""
    _WORKERS.append(function)
    return function


def ends_channels(function: Callable[[], None]) -> Callable[[], None]:
    """Have a function called behind those of `ends_workers`, whatever was imported first; it closes channels."""
    _CHANNELS.append(function)
    return function


@atexit.register
def _end() -> None:
    with ExitStack() as all_functions:  # also where one fails; the last one in is called first
        for function in reversed((*_WORKERS, *_CHANNELS)):
            all_functions.callback(function)
