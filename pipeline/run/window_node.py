"""The running counterpart of stages that know the batches to come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from headrace.ops.forks import ProcessLock
from headrace.pipeline.plan.stage import WindowRunner
from headrace.pipeline.run.base_node import BaseNode
from headrace.pipeline.run.nodes import Step, Work, close_node, stop_node

#: Batches in the window of ranks that make batches together: so many for each, whatever they hold, as all ranks must
#: come equally far.
LOCKSTEP_WINDOW = 4

#: Batches that may enter for each that leaves: the first one leaves soon, and the window grows as batches are made.
MOST_ENTERING = 3


class WindowNode(BaseNode[Work]):
    """Holds the next batches, shows each to a stage as it comes, and runs the stage on it as it leaves.

    All of it happens in the thread that asks for the next batch. An error upstream is raised at the turn of its batch.
    """

    def __init__(
        self,
        upstream: BaseNode[Work],
        steps: tuple[Step, ...],
        runner: WindowRunner,
        enter: Callable[[Work, Any], None],
        step: Step,
        *,
        lockstep: bool,
    ) -> None:
        super().__init__()
        self._upstream = upstream
        self._steps = steps
        self._runner = runner
        self._enter = enter
        self._step = step
        self._lockstep = lockstep
        self._running = ProcessLock()
        self._held: deque[Work] = deque()
        self._end: Exception | None = None

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        super().reset(initial_state)
        self._clear()
        self._end = None
        self._upstream.reset(initial_state)

    def next(self) -> Work:
        with self._running.held():
            for _ in range(MOST_ENTERING):
                if self._end is not None or not self._has_room():
                    break
                self._pull()
            if not self._held:
                assert self._end is not None
                raise self._end
            return self._step(self._held.popleft())

    def _has_room(self) -> bool:
        if self._lockstep:
            return len(self._held) < LOCKSTEP_WINDOW
        return not self._held or self._runner.wants_more

    def _pull(self) -> None:
        """Let the next batch into the window, or note what keeps it from coming: an error, or the end."""
        try:
            work = next(self._upstream)
            for step in self._steps:
                work = step(work)
            self._enter(work, work.batch)
        except Exception as error:  # noqa: BLE001 - it is raised at its turn
            self._end = error
        else:
            self._held.append(work)

    def close(self, timeout: float | None = None) -> None:
        """Stop whatever runs upstream, and wait for it, or for some seconds; let go of the batches in the window."""
        close_node(self._upstream, timeout)
        self._let_go()

    def stop(self) -> None:
        """Stop whatever runs upstream, without waiting; let go of the batches in the window."""
        stop_node(self._upstream)
        self._let_go()

    def _let_go(self) -> None:
        # Where a worker that was given up is still at it, they stay until the next reset.
        running = self._running.held()
        if running.acquire(blocking=False):
            try:
                self._clear()
            finally:
                running.release()

    def _clear(self) -> None:
        self._held.clear()
        self._runner.clear()
