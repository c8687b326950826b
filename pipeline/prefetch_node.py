"""Background threads that keep the order: the running counterpart of the stage ``prefetch``."""

from __future__ import annotations

import os
import threading
import weakref
from queue import SimpleQueue
from typing import Any

from headrace.pipeline.base_node import BaseNode
from headrace.pipeline.ending import ends_workers
from headrace.pipeline.errors import LoaderError
from headrace.pipeline.nodes import Step, Work, close_node, stop_node


class PrefetchNode(BaseNode[Work]):
    """Runs steps in worker threads and hands their results out in the order of the upstream.

    A worker takes a place (at most ``depth`` are given out), pulls the next work under a lock that also numbers it,
    runs the steps, and puts the result under its number. An error takes the place of a result and is raised where the
    result would have been returned, with the traceback of the worker. No thread polls or sleeps, and none outlives
    :meth:`close`, a ``reset`` or the node itself.

    Ranks that make batches together begin the same batches: in `lockstep`, an end in the middle of an epoch lets the
    worker make what it was given places for, and a further prefetch upstream ends behind it. As all ranks leave their
    loops at the same batch, this is the same everywhere, and no rank waits for one that has stopped.
    """

    def __init__(
        self, upstream: BaseNode[Work], steps: tuple[Step, ...], *, workers: int, depth: int, lockstep: bool = False
    ) -> None:
        super().__init__()
        self._upstream = upstream
        self._steps = steps
        self._workers = workers
        self._depth = depth
        self._lockstep = lockstep
        self._run: _Run | None = None
        self._stop: weakref.finalize[Any, PrefetchNode] | None = None
        self._state: dict[str, Any] | None = None
        self.feeds_another = False
        if isinstance(upstream, PrefetchNode):
            upstream.feeds_another = True

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        super().reset(initial_state)
        self._end_run()
        self._upstream.reset(initial_state)
        self._state = None

    def next(self) -> Work:
        if self._run is None:
            self._run = _Run(self._upstream, self._steps, self._workers, self._depth, lockstep=self._lockstep)
            # A run in lockstep ends those that feed it by itself, when it needs nothing more of them.
            (_FEEDING if self._lockstep and self.feeds_another else _OUTERMOST).add(self._run)
            self._stop = weakref.finalize(self, self._run.stop)
        work = self._run.take()
        self._state = work.state
        return work

    def get_state(self) -> dict[str, Any]:
        # The upstream has run ahead; the position that counts is the one behind the last work handed out.
        return self._upstream.state_dict() if self._state is None else self._state

    def close(self) -> None:
        """End the worker threads, waiting for the batches they have begun."""
        self._end_run()
        close_node(self._upstream)

    def stop(self) -> None:
        """Tell the worker threads to end and return at once; safe in a destructor."""
        if self._run is not None:
            self._run.stop()
        if self._run is None or not self._lockstep:
            stop_node(self._upstream)

    def _end_run(self) -> None:
        if self._run is not None:
            self._run.stop()
            self._run.join()
            self._run = None
            if self._stop is not None:
                self._stop.detach()


class _Run:
    """One pass over the upstream; it does not refer to the node, which can be collected while threads live."""

    def __init__(
        self, upstream: BaseNode[Work], steps: tuple[Step, ...], workers: int, depth: int, *, lockstep: bool
    ) -> None:
        self._upstream = upstream
        self._steps = steps
        self._lockstep = lockstep
        self._process = os.getpid()
        # Places to take, and _STOP behind the last one. A SimpleQueue may be put to inside a destructor, which a
        # semaphore may not: the collector can run while this very thread is inside the semaphore.
        self._places: SimpleQueue[object] = SimpleQueue()
        for _ in range(depth):
            self._places.put(None)
        self._pull = threading.Lock()
        self._arrived = threading.Condition()
        self._results: dict[int, Work | BaseException] = {}
        self._next_in = 0
        self._next_out = 0
        self._stopped = False
        self._num_working = workers
        self._threads = [
            threading.Thread(target=self._work, name=f"headrace-prefetch-{number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def take(self) -> Work:
        """Return the next result in order, or raise what took its place; every later call raises StopIteration."""
        if self._process != os.getpid():
            raise LoaderError(
                "this iteration was begun before a fork, which takes no background threads along; begin a new one in "
                "the child process with iter(loader), or use prefetch=False"
            )
        with self._arrived:
            while self._next_out not in self._results and self._num_working > 0:
                self._arrived.wait()
            # Without it: the run was ended from outside, and nobody is left who would make it.
            self._results.setdefault(self._next_out, StopIteration())
            result = self._results[self._next_out]
            if isinstance(result, Work):
                del self._results[self._next_out]
                self._next_out += 1
            else:
                self._results[self._next_out] = StopIteration()
        if isinstance(result, Work):
            self._places.put(None)
            return result
        self.stop()
        # A StopIteration is made anew, since raising would tie a kept one to this frame.
        raise StopIteration if isinstance(result, StopIteration) else result

    def stop(self) -> None:
        """Tell the workers to take no further work; safe in a destructor."""
        if not self._lockstep:
            self._stopped = True
        self._places.put(_STOP)

    def join(self, timeout: float | None = None) -> None:
        """Wait until no worker is left, or for some seconds for each."""
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout)

    def _work(self) -> None:
        try:
            self._make_all()
        finally:
            with self._arrived:
                self._num_working -= 1
                self._arrived.notify_all()

    def _make_all(self) -> None:
        while self._places.get() is not _STOP:
            with self._pull:
                if self._stopped:
                    break
                number = self._next_in
                self._next_in += 1
                try:
                    work = next(self._upstream)
                except BaseException as error:  # noqa: BLE001 - handed to the consumer, StopIteration included
                    self._stopped = True
                    self.stop()
                    self._put(number, error)
                    return
            try:
                for step in self._steps:
                    work = step(work)
            except BaseException as error:  # noqa: BLE001 - handed to the consumer
                self._stopped = self._stopped or self._lockstep  # the other ranks will not come to what would follow
                self._put(number, error)
            else:
                self._put(number, work)
        self._places.put(_STOP)  # for the next worker
        if self._lockstep:
            stop_node(self._upstream)

    def _put(self, number: int, result: Work | BaseException) -> None:
        with self._arrived:
            self._results[number] = result
            self._arrived.notify_all()


_STOP = object()
_OUTERMOST: weakref.WeakSet[_Run] = weakref.WeakSet()
_FEEDING: weakref.WeakSet[_Run] = weakref.WeakSet()


@ends_workers
def _end_all_runs() -> None:
    runs = list(_OUTERMOST)
    for run in runs:
        run.stop()
    for run in (*runs, *_FEEDING):
        run.join(timeout=10.0)  # a user's function that never returns must not keep the process
