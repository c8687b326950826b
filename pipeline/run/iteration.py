"""One iteration of a loader over (the rest of) an epoch."""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread, current_thread, get_ident
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.ops.errors import HeadraceError
from headrace.ops.forks import ProcessLock
from headrace.pipeline.run.base_node import BaseNode
from headrace.pipeline.run.nodes import Work, close_node, patience, stop_node
from headrace.pipeline.storage.terminal import progress_bar

if TYPE_CHECKING:
    from headrace.pipeline.distributed.leaving import Loop
    from headrace.pipeline.distributed.same_place import Turn


class Position:
    """Where the next batch is.

    Parameters
    ----------
    count
        Returns the number of batches in an epoch; None if the source does not know.
    epoch
        The epoch.
    source
        The source's state in it; None for its beginning.
    """

    def __init__(
        self, count: Callable[[int], int | None], epoch: int = 0, source: Mapping[str, Any] | None = None
    ) -> None:
        self.count = count
        #: The epoch and the source's state in it: one value, so that a checkpoint taken in another thread has both of
        #: the same batch.
        self.place = epoch, source

    @property
    def epoch(self) -> int:
        """The epoch."""
        return self.place[0]

    @property
    def source(self) -> Mapping[str, Any] | None:
        """The source's state in the epoch; None for its beginning."""
        return self.place[1]

    @property
    def batch(self) -> int:
        """The number of batches of the epoch before it."""
        source = self.source
        return 0 if source is None else int(source["batch"])

    def copy(self) -> Position:
        """Return a position at the same place that moves by itself."""
        return Position(self.count, *self.place)

    def move(self, epoch: int, source: Mapping[str, Any] | None = None) -> None:
        """Go there. The end of an epoch is the beginning of the next one, never an empty rest."""
        if source is not None and source["batch"] == self.count(epoch):
            epoch, source = epoch + 1, None
        self.place = epoch, source


class Iteration(Iterator[Any]):
    """Yields the batches from a position to the end of its epoch and moves the position along.

    It belongs to one thread: the one that takes the first batch, until that thread has ended. Another thread would
    leave both with a part of the epoch, so it is refused.

    Parameters
    ----------
    node
        The running plan.
    position
        Where to begin; stands behind the last batch handed out at any time.
    received
        Called with every piece of work handed out, the seconds that the training loop waited for it, and those that it
        spent on the batch before.
    ended
        Called behind the last batch; what it raises is raised in place of the end.
    failed
        Called with an error that ends the iteration.
    loop
        What other ranks learn of this iteration, if there are any.
    progress
        Whether to show a progress bar.
    """

    def __init__(
        self,
        node: BaseNode[Work],
        position: Position,
        received: Callable[[Work, float, float], None],
        ended: Callable[[], None],
        failed: Callable[[BaseException], None],
        *,
        loop: Loop | Turn | None,
        progress: bool,
    ) -> None:
        self._node = node
        self._position = position
        self._received = received
        self._ended = ended
        self._failed = failed
        self._loop = loop
        self._resumed = position.source is not None
        self._superseded = False
        self._finished = False
        self._handed_out: float | None = None
        self._thread: Thread = current_thread()
        self._taken_by: int | None = None  # the identifier of the thread, once it has asked for a batch
        self._bar: Any = None
        node.reset({"epoch": position.epoch, "source": position.source})
        if progress:
            self._bar = progress_bar(
                total=position.count(position.epoch),
                initial=position.batch,
                desc=f"epoch {position.epoch}",
                unit="batch",
            )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        del protocol
        raise HeadraceError(
            "expected something that can be copied or pickled, got a running iteration of a loader; copy or pickle the "
            "plan and loader.state_dict(), and make a new loader of them"
        )

    def __iter__(self) -> Iteration:
        return self

    def __next__(self) -> Any:
        if self._taken_by != get_ident():
            self._take()
        if self._superseded:
            raise _ended_from_outside()
        if self._finished:
            raise StopIteration
        start = time.perf_counter()
        try:
            work = self._next_work() if self._loop is None else self._next_of_loop(self._loop)
        except BaseException as error:
            if self._superseded:  # its threads were ended, which looks like the end of the epoch from here
                raise _ended_from_outside() from (None if isinstance(error, StopIteration) else error)
            if self._loop is not None:
                self._loop.finish(came_to_its_end=isinstance(error, StopIteration))
            if not isinstance(error, StopIteration):
                self._failed(error)
            self._finish(patience(error))
            raise
        if self._superseded:  # by another thread, while this one waited
            raise _ended_from_outside()
        now = time.perf_counter()
        self._received(work, now - start, 0.0 if self._handed_out is None else start - self._handed_out)
        self._position.move(work.state["epoch"], work.state["source"])
        if self._bar is not None:
            self._bar.update()
        self._handed_out = now
        return work.batch

    @property
    def is_finished(self) -> bool:
        """Whether it has come to its end, or was ended."""
        return self._finished

    def check_thread(self, action: str) -> None:
        """Refuse an action that would end this iteration, of a thread other than the one that runs it."""
        if not self._finished and self._belongs_elsewhere():
            raise HeadraceError(
                f"expected one thread at a time to iterate over a loader, got {action} in thread "
                f"{current_thread().name!r} while thread {self._thread.name!r} has an iteration that is not over; give "
                "each thread its own loader, plan.loader(), or end that iteration first, by loader.close()"
            )

    def supersede(self, timeout: float | None = None) -> None:
        """End this iteration from outside and wait for its threads, or for some seconds."""
        if not self._finished:
            self._superseded = True
            self._leave()
            self._finish(timeout)

    def _take(self) -> None:
        """Let the calling thread have this iteration, unless another one has it."""
        with _TAKING.held():
            if self._taken_by is not None and self._belongs_elsewhere():
                raise HeadraceError(
                    f"expected one thread to take the batches of an iteration, got thread {current_thread().name!r} "
                    f"beside thread {self._thread.name!r}, each of which would see a part of the epoch; take them in "
                    "one thread, which may pass them on by a queue.Queue (asyncio: an executor of one thread), or give "
                    "each thread its own loader: plan.loader()"
                )
            self._thread, self._taken_by = current_thread(), get_ident()

    def _belongs_elsewhere(self) -> bool:
        return self._thread is not current_thread() and self._thread.is_alive()

    def _next_of_loop(self, loop: Loop | Turn) -> Work:
        loop.ask()
        try:
            work = self._next_work()
        except StopIteration:
            loop.look_back()
            raise
        loop.receive(work.epoch, work.index)
        return work

    def _next_work(self) -> Work:
        resumed, self._resumed = self._resumed, False
        try:
            return next(self._node)
        except StopIteration as error:
            end = error
        self._ended()
        # Only a source that does not know its length gets here away from the beginning of an epoch.
        if self._position.source is not None:
            self._position.move(self._position.epoch + 1)
        if not resumed:
            raise end
        # The state was taken behind the last batch of its epoch: the very next batch is the first of the next epoch.
        self._node.reset({"epoch": self._position.epoch, "source": None})
        return next(self._node)

    def _leave(self) -> None:
        """Let the other ranks know before anybody waits for threads, which wait for the other ranks."""
        if self._loop is None:
            return
        if self._position.source is None:  # nothing is left of the epoch
            self._loop.finish(came_to_its_end=True)
        else:
            self._loop.leave()

    def _finish(self, timeout: float | None) -> None:
        self._finished = True
        if self._bar is not None:
            self._bar.close()
        close_node(self._node, timeout)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # An iteration abandoned by break: its threads end, but this may be one of them, so nobody waits here. Where
        # Python ends, they have ended, and modules have lost their names: hence the default.
        if not is_ending() and not getattr(self, "_finished", True):
            self._finished = True
            self._leave()
            stop_node(self._node)
            if self._bar is not None:
                self._bar.close()


class RunningIteration:
    """The iteration of a loader that runs: one at a time, and of one thread."""

    def __init__(self) -> None:
        self._last: weakref.ref[Iteration] | None = None
        self._changing = ProcessLock()

    @contextmanager
    def ended_for(self, action: str) -> Iterator[None]:
        """End it, and let no other thread change it inside the context.

        Raises
        ------
        HeadraceError
            If another thread runs it.
        """
        with self._changing.held():
            last = self._get()
            if last is not None:
                last.check_thread(action)
            self.end()
            yield

    def end(self, timeout: float | None = None) -> None:
        """End it, whichever thread runs it, and wait for its threads, or for some seconds."""
        last = self._get()
        if last is not None:
            last.supersede(timeout)
        self._last = None

    def begin(self, iteration: Iteration) -> Iteration:
        """Note that this one runs from here on, and return it."""
        self._last = weakref.ref(iteration)
        return iteration

    def _get(self) -> Iteration | None:
        return None if self._last is None else self._last()


#: Held while an iteration changes hands.
_TAKING = ProcessLock()


def _ended_from_outside() -> HeadraceError:
    return HeadraceError(
        "this iteration was ended by a later iter(loader), set_epoch, load_state_dict or close; a loader runs "
        "one iteration at a time: make a second loader from the plan to run two"
    )
