"""A prefetch that begins when it pays: the running counterpart of the stage ``prefetch`` with ``eager=False``."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from headrace.pipeline.run.base_node import BaseNode
from headrace.pipeline.run.nodes import Step, Work
from headrace.pipeline.run.prefetch_node import PrefetchNode

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
        self._state = work.state
        self._answered = time.perf_counter()
        self._making = self._answered - asked
        return work
