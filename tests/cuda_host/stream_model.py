"""Streams as a model: what a side stream is given runs when somebody waits for it, and not before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StreamModel:
    """Side streams, one for each thread, whose work is put off as long as it can be.

    A real one may have done its work when nobody has waited. This one never has, so whoever forgets to wait reads what
    is not there yet.
    """

    def __init__(self) -> None:
        self._local = threading.local()
        self._lock = threading.Lock()

    @property
    def queue(self) -> list[Callable[[], None]] | None:
        """The work put off on the stream that is current, or None on the main one."""
        return self._local.queue if getattr(self._local, "inside", False) else None

    @contextmanager
    def side_stream(self) -> Iterator[None]:
        if not hasattr(self._local, "queue"):
            self._local.queue = []
        self._local.inside = True
        try:
            yield
        finally:
            self._local.inside = False

    def record(self) -> Callable[[], None]:
        """Return what waits for all that the current stream was given so far."""
        queue = self.queue
        if queue is None:
            return lambda: None
        position = len(queue)

        def wait() -> None:
            with self._lock:
                for place in range(position):
                    work, queue[place] = queue[place], _done
                    work()

        return wait


def _done() -> None:
    """What has run already."""
