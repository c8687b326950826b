"""One iteration of a loader over (the rest of) an epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.ops.errors import LoaderError
from headrace.pipeline.run.base_node import BaseNode
from headrace.pipeline.run.nodes import Work, close_node, patience, stop_node
from headrace.pipeline.storage.terminal import progress_bar

if TYPE_CHECKING:
    from headrace.pipeline.distributed.leaving import Loop
    from headrace.pipeline.distributed.same_place import Turn


@dataclass(eq=False, repr=False)
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

    count: Callable[[int], int | None]
    epoch: int = 0
    source: Mapping[str, Any] | None = None

    @property
    def batch(self) -> int:
        """The number of batches of the epoch before it."""
        return 0 if self.source is None else int(self.source["batch"])

    def move(self, epoch: int, source: Mapping[str, Any] | None = None) -> None:
        """Go there. The end of an epoch is the beginning of the next one, never an empty rest."""
        if source is not None and source["batch"] == self.count(epoch):
            epoch, source = epoch + 1, None
        self.epoch, self.source = epoch, source


class Iteration(Iterator[Any]):
    """Yields the batches from a position to the end of its epoch and moves the position along.

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
        raise LoaderError(
            "expected something that can be copied or pickled, got a running iteration of a loader; copy or pickle the "
            "plan and loader.state_dict(), and make a new loader of them"
        )

    def __iter__(self) -> Iteration:
        return self

    def __next__(self) -> Any:
        if self._superseded:
            raise LoaderError(
                "this iteration was ended by a later iter(loader), set_epoch, load_state_dict or close; a loader runs "
                "one iteration at a time: make a second loader from the plan to run two"
            )
        if self._finished:
            raise StopIteration
        start = time.perf_counter()
        try:
            work = self._next_work() if self._loop is None else self._next_of_loop(self._loop)
        except BaseException as error:
            if self._loop is not None:
                self._loop.finish(came_to_its_end=isinstance(error, StopIteration))
            if not isinstance(error, StopIteration):
                self._failed(error)
            self._finish(patience(error))
            raise
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

    def supersede(self, timeout: float | None = None) -> None:
        """End this iteration from outside and wait for its threads, or for some seconds."""
        if not self._finished:
            self._superseded = True
            self._leave()
            self._finish(timeout)

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

    def __del__(self) -> None:
        # An iteration abandoned by break: its threads end, but this may be one of them, so nobody waits here.
        if not getattr(self, "_finished", True):
            self._finished = True
            self._leave()
            stop_node(self._node)
            if self._bar is not None:
                self._bar.close()
