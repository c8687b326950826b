"""Worker threads, which have to end while Python is whole.

A thread that comes back to Python when it is being taken down, be it only to free a tensor, is ended by Python in the
midst of C++ code that does not allow it, and the process aborts. So workers are known here from before their start
until they have really ended: themselves, not the work they belong to, of which the worker may be the last owner.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from headrace.ops.errors import HeadraceError
from headrace.ops.warn_user import remember_user
from headrace.pipeline.distributed.closing import ends_workers

#: Seconds for the batches that workers have begun.
PATIENCE = 10.0

#: Seconds to end in for a worker that was interrupted.
GRACE = 1.0

_Stop = Callable[[], None]


class _Workers:
    """The worker threads of this process."""

    def __init__(self) -> None:
        # Entered again by a destructor that the collector runs in it.
        self._lock = threading.RLock()
        self._ended = False
        self._stops: dict[threading.Thread, _Stop] = {}

    def __contains__(self, thread: threading.Thread) -> bool:
        return thread in self._stops

    def start(self, thread: threading.Thread, stop: _Stop) -> None:
        with self._lock:
            if self._ended:
                raise HeadraceError("no batch can be prefetched while Python shuts down; use prefetch=False there")
            for other in [other for other in self._stops if not other.is_alive()]:
                del self._stops[other]
            self._stops[thread] = stop
            remember_user(thread)
            thread.start()

    def end(self) -> None:
        with self._lock:
            self._ended = True
        workers = list(self._stops.items())
        for _, stop in workers:
            stop()
        left = join_all([thread for thread, _ in workers], PATIENCE, interruptible=False)
        for thread in left:
            _interrupt(thread)
        if join_all(left, GRACE, interruptible=False):
            _leave_threads_behind()


_WORKERS = _Workers()


def start_worker(thread: threading.Thread, stop: _Stop) -> None:
    """Start a daemon thread that is waited for when Python ends.

    Parameters
    ----------
    thread
        The thread.
    stop
        Lets it end; called before any thread is waited for. It should not keep alive what the thread works on.

    Raises
    ------
    HeadraceError
        If Python is shutting down.
    """
    _WORKERS.start(thread, stop)


def in_worker() -> bool:
    """Whether the calling thread is a worker. It may run any destructor, so it must wait for no other there."""
    return threading.current_thread() in _WORKERS


def join_all(
    threads: Iterable[threading.Thread], timeout: float | None, *, interruptible: bool = True
) -> list[threading.Thread]:
    """Wait for threads, other than the calling one, for some seconds in all; return those that live on.

    An interrupt (Ctrl-C) is raised, or else cuts the waiting short.
    """
    current = threading.current_thread()
    others = [thread for thread in threads if thread is not current and thread.is_alive()]
    until = None if timeout is None else time.monotonic() + timeout
    try:
        for thread in others:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
    except BaseException:  # what the handler of a signal raises
        if interruptible:
            raise
    return [thread for thread in others if thread.is_alive()]


@ends_workers
def _end_workers() -> None:
    _WORKERS.end()


def _interrupt(thread: threading.Thread) -> None:
    """Raise SystemExit in a thread, as soon as it runs Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


def _leave_threads_behind() -> None:
    """Let Python end beside threads in foreign code that does not return, or returns at any time from now on.

    Such a thread is not ended but halted (as Python does by itself from 3.14 on): C++ asks the terminate handler before
    it aborts, and that is a function that waits. And the process ends as soon as Python has ended, with the status it
    should have, before destructors of libraries take away what these threads use.
    """
    with suppress(OSError, AttributeError):  # another system than Linux with glibc
        libc = ctypes.CDLL(None)
        libc.fflush(None)
        libc.on_exit(libc._exit, None)  # noqa: SLF001 - its name
        ctypes.CDLL("libstdc++.so.6")._ZSt13set_terminatePFvvE(libc.pause)  # noqa: SLF001 - std::set_terminate


def _forget() -> None:
    """Begin anew in a forked process, which has none of the threads, and perhaps a lock that nobody will open."""
    global _WORKERS  # noqa: PLW0603
    _WORKERS = _Workers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
