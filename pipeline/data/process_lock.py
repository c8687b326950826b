"""A lock that holds within one process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ProcessLock:
    """A lock that is open in a forked process, whoever holds it in the parent: that thread may have stayed there."""

    def __init__(self) -> None:
        self._of_process: dict[int, threading.Lock] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock of this process."""
        # In one step, as two threads may come first at once.
        lock = self._of_process.setdefault(os.getpid(), threading.Lock())
        with lock:
            yield
