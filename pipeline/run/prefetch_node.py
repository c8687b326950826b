"""Background threads that keep the order: the running counterparts of the stage ``prefetch``."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from queue import SimpleQueue
from typing import Any

from headrace.ops.errors import HeadraceError
from headrace.pipeline.run.base_node import BaseNode
from headrace.pipeline.run.nodes import Step, Work, close_node, stop_node
from headrace.pipeline.run.room_ahead import RoomAhead
from headrace.pipeline.run.shutdown import in_worker, join_all, start_worker


class PrefetchNode(BaseNode[Work]):
    """Runs steps in worker threads and hands their results out in the order of the upstream.

    A worker takes a slot (at most ``depth`` are given out), pulls the next work under a lock that also numbers it,
    runs the steps, and puts the result under its number. Where there is no room for another batch it waits until the
    training loop has taken one (see `RoomAhead`), unless there is none to take. An error stands for a result and is
    raised where the result would have been returned, with the traceback of the worker. No thread polls or sleeps, and
    all end with :meth:`close`, a ``reset`` or the node itself.

    Ranks that make batches together begin the same batches: in `lockstep`, an end in the middle of an epoch lets the
    worker make what it was given slots for, and a further prefetch upstream ends behind it. As all ranks leave their
    loops at the same batch, this is the same everywhere, and no rank waits for one that has stopped. How many they
    begin does not depend on the room of one of them.
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
        self._room = None if lockstep else RoomAhead()
        self._run: _Run | None = None
        self._stop: weakref.finalize[Any, PrefetchNode] | None = None
        self.feeds_another = False
        if isinstance(upstream, PrefetchNode):
            upstream.feeds_another = True

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        super().reset(initial_state)
        self._end_run(None)
        self._upstream.reset(initial_state)

    def next(self) -> Work:
        if self._run is None:
            self._run = _Run(self._upstream, self._steps, self._workers, self._depth, self._room)
            self._stop = weakref.finalize(self, self._run.stop)
            self._stop.atexit = False  # shutdown knows in which order
            # A run in lockstep ends those that feed it by itself, when it needs nothing more of them.
            self._run.start(ends_by_itself=self._lockstep and self.feeds_another)
        return self._run.take()

    def close(self, timeout: float | None = None) -> None:
        """End the worker threads, waiting for the batches they have begun, or for some seconds.

        A worker that closes waits for none: where its destructors run, another one may be waiting for it.
        """
        self.stop()
        timeout = 0.0 if in_worker() else timeout
        if self._end_run(timeout) or not self._lockstep:
            close_node(self._upstream, timeout)

    def stop(self) -> None:
        """Let the worker threads end and return at once; safe in a destructor."""
        if self._run is not None:
            self._run.stop()
        if self._run is None or not self._lockstep:
            stop_node(self._upstream)

    def _end_run(self, timeout: float | None) -> bool:
        """Stop and wait for all workers, or for some seconds. Until all have ended the run stays, for the next try."""
        if self._run is not None:
            self._run.stop()
            if not self._run.join(timeout):
                return False
            self._run = None
            if self._stop is not None:
                self._stop.detach()
        return True


class _Slots:
    """Slots for batches to be made. All that the end of the program holds of a run: it must not keep batches alive."""

    def __init__(self, depth: int, *, lockstep: bool) -> None:
        self._lockstep = lockstep
        # A SimpleQueue may be put to inside a destructor, which a semaphore may not: the collector can run while this
        # very thread is inside the semaphore. _STOP stands behind the last slot.
        self._queue: SimpleQueue[object] = SimpleQueue()
        self.stopped = False  # whether those that are left are void
        for _ in range(depth):
            self.give_back()

    def give_back(self) -> None:
        self._queue.put(None)

    def take(self) -> bool:
        """Wait for a slot; False if there will be none."""
        return self._queue.get() is not _STOP

    def stop(self) -> None:
        """Give out no further slot; safe in a destructor."""
        if not self._lockstep:
            self.stopped = True
        self._queue.put(_STOP)


class _Run:
    """One pass over the upstream; it does not refer to the node, which can be collected while threads live."""

    def __init__(
        self, upstream: BaseNode[Work], steps: tuple[Step, ...], workers: int, depth: int, room: RoomAhead | None
    ) -> None:
        self._upstream = upstream
        self._steps = steps
        self._room = room
        self._lockstep = room is None
        self._process = os.getpid()
        self._slots = _Slots(depth, lockstep=self._lockstep)
        self._pull = threading.Lock()
        self._arrived = threading.Condition()
        self._results: dict[int, Work | BaseException] = {}
        self._next_in = 0
        self._next_out = 0
        self._num_working = 0
        self._being_made = 0
        self._kept_back = 0  # slots, by all workers together
        self._threads = [
            threading.Thread(target=self._work, name=f"headrace-prefetch-{number}", daemon=True)
            for number in range(workers)
        ]

    def start(self, *, ends_by_itself: bool) -> None:
        """Start the workers, which end with Python unless they do so by themselves."""
        for thread in self._threads:
            with self._arrived:
                self._num_working += 1
            try:
                start_worker(thread, _nothing if ends_by_itself else self._slots.stop)
            except BaseException:
                with self._arrived:
                    self._num_working -= 1
                self.stop()  # those that could be started
                raise

    def take(self) -> Work:
        """Return the next result in order, or raise what stands for it; every later call raises StopIteration."""
        if self._process != os.getpid():
            raise HeadraceError(
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
            self._slots.give_back()
            return result
        self.stop()
        # A StopIteration is made anew, since raising would tie a kept one to this frame.
        raise StopIteration if isinstance(result, StopIteration) else result

    def stop(self) -> None:
        """Let the workers take no further work; safe in a destructor."""
        self._slots.stop()

    def join(self, timeout: float | None) -> bool:
        """Wait until no worker is left, or for some seconds; return whether none is."""
        return not join_all(self._threads, timeout)

    def _work(self) -> None:
        try:
            while self._begin() and self._make_one():
                pass
            self.stop()  # the next worker
            if self._lockstep:
                stop_node(self._upstream)
        finally:
            with self._arrived:
                self._num_working -= 1
                self._arrived.notify_all()

    def _begin(self) -> bool:
        """Wait for a slot and for room; return False if no batch is to be begun.

        Slots are kept back until there is room, so that the next one is that of a batch which has left.
        """
        while self._slots.take():
            with self._arrived:
                if self._has_room():
                    self._being_made += 1
                    for _ in range(self._kept_back):
                        self._slots.give_back()
                    self._kept_back = 0
                    return True
                self._kept_back += 1
        return False

    def _has_room(self) -> bool:
        holds_none = not self._results and not self._being_made
        return holds_none or self._room is None or self._room.is_there(self._being_made)

    def _make_one(self) -> bool:
        """Make the next batch; return whether to go on."""
        with self._pull:
            if self._slots.stopped:
                return False
            number = self._next_in
            self._next_in += 1
            try:
                work = next(self._upstream)
            except BaseException as error:  # noqa: BLE001 - handed to the consumer, StopIteration included
                self._slots.stopped = True
                self.stop()
                self._put(number, error)
                return False
        try:
            for step in self._steps:
                work = step(work)
        except BaseException as error:  # noqa: BLE001 - handed to the consumer
            if self._lockstep:
                self._slots.stopped = True  # the other ranks will not come to what would follow
            self._put(number, error)
        else:
            self._put(number, work)
        return True

    def _put(self, number: int, result: Work | BaseException) -> None:
        with self._arrived:
            self._being_made -= 1
            if self._room is not None and isinstance(result, Work):
                self._room.note(result)
            self._results[number] = result
            self._arrived.notify_all()


_STOP = object()


def _nothing() -> None:
    pass


# To hand a batch over from thread to thread takes a third of a millisecond, and more where the cores are busy: there
# must be more than that to gain.
LEAST_GAIN = 0.5e-3
# Beside the making of such a batch that is nothing, and where other processes take the cores two threads get more.
LONG_BATCH = 5e-3
# In succession: one hiccup decides nothing.
BATCHES_TO_DECIDE = 3


class DeferredPrefetchNode(PrefetchNode):
    """Makes batches in the thread that asks for them until it pays to make them ahead, and then as `PrefetchNode`.

    Ahead, a batch is made while the training loop works on the one before: that hides the shorter of the two times. A
    loop that does little with small batches, or batches that are made in no time, leave nothing to hide. Once it pays,
    later epochs begin ahead.
    """

    def __init__(self, upstream: BaseNode[Work], steps: tuple[Step, ...], *, workers: int, depth: int) -> None:
        super().__init__(upstream, steps, workers=workers, depth=depth)
        self._pays: deque[bool] = deque(maxlen=BATCHES_TO_DECIDE)
        self._over = False
        self._answered: float | None = None
        self._making = 0.0

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        super().reset(initial_state)
        self._over = False
        self._answered = None

    def next(self) -> Work:
        if self._over:
            raise StopIteration
        asked = time.perf_counter()
        if self._answered is not None:
            gain = min(asked - self._answered, self._making)
            self._pays.append(gain > LEAST_GAIN or self._making > LONG_BATCH)
        if len(self._pays) == BATCHES_TO_DECIDE and all(self._pays):
            self._answered = None
            return super().next()
        self._over = True  # unless a batch comes of it
        work = next(self._upstream)
        for step in self._steps:
            work = step(work)
        self._over = False
        self._answered = time.perf_counter()
        self._making = self._answered - asked
        return work
