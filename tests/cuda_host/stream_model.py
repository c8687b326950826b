"""Streams as a model: what a side stream is given runs when somebody waits for it, and not before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class StreamModel:
    """Side streams, one for each thread, whose work is put off as long as it can be.

    A real one may have done its work when nobody has waited. This one never has, so whoever forgets to wait reads what
    is not there yet. Only the host and the main stream, whose work runs at once, let it run: what a side stream waits
    for is put off with its own work.
    """

    def __init__(self) -> None:
        self._local = threading.local()
        self._lock = threading.RLock()

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
            with _InOrder(self), _ReadByHost(self):
                yield
        finally:
            self._local.inside = False

    def record(self) -> Callable[[], None]:
        """Return what lets the stream that calls it wait for all that the current one was given so far."""
        queue = self.queue
        if queue is None:
            return _done
        position = len(queue)

        def wait() -> None:
            if self.queue is None:
                self._run(queue, position)
            elif self.queue is not queue:
                self.queue.append(lambda: self._run(queue, position))

        return wait

    def synchronize(self) -> None:
        """Let the host wait for all that the current stream was given."""
        if self.queue is not None:
            self._run(self.queue, len(self.queue))

    def _run(self, queue: list[Callable[[], None]], position: int) -> None:
        with self._lock:
            for place in range(position):
                work, queue[place] = queue[place], _done
                work()


class _InOrder(TorchDispatchMode):
    """Lets torch's own operations on a stream see what was put off before them.

    They run at once, so all before them does, too; memory that they allocate or look at from another side is not read.
    """

    def __init__(self, streams: StreamModel) -> None:
        super().__init__()
        self._streams = streams

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if not function.is_view and "empty" not in function.name():
            self._streams.synchronize()
        return function(*args, **(kwargs or {}))


class _ReadByHost(TorchFunctionMode):
    """The same for the reads of memory that torch does not dispatch on a CPU. On a GPU, the host waits there."""

    def __init__(self, streams: StreamModel) -> None:
        super().__init__()
        self._streams = streams

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if getattr(function, "__name__", None) in ("tolist", "numpy", "__array__"):
            self._streams.synchronize()
        return function(*args, **(kwargs or {}))


def _done() -> None:
    """What has run already, or ran at once."""
