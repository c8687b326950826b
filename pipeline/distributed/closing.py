"""What happens when Python ends: worker threads end first, then the channels that they use are closed.

This is done with `atexit`, behind the threads that Python waits for by itself: one of these may be the training loop.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextlib import ExitStack

_Function = Callable[[], None]

_ENDS_WORKERS: list[_Function] = []
_CLOSES_CHANNELS: list[_Function] = []


def ends_workers(function: _Function) -> _Function:
    """Have a function called when Python ends, before channels are closed."""
    _ENDS_WORKERS.append(function)
    return function


def closes_channels(function: _Function) -> _Function:
    """Have a function called when workers have ended, whatever was imported first."""
    _CLOSES_CHANNELS.append(function)
    return function


@atexit.register
def _shut_down() -> None:
    with ExitStack() as all_functions:  # also where one fails; the last one in is called first
        for function in (*reversed(_CLOSES_CHANNELS), *reversed(_ENDS_WORKERS)):
            all_functions.callback(function)
