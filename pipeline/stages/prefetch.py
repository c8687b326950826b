"""Prefetching: everything upstream runs in background threads, ahead of the training loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.ops.errors import PlanError
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.data.checks import check_switches
from headrace.pipeline.plan.stage import CONVERTED, MINIBATCH, ON_ITS_WAY, Stage
from headrace.pipeline.plan.verbs import verb

#: More than any machine can run; a slip of the keyboard must not start a million threads.
MOST_WORKERS = 1 << 12

#: A place is made for each batch that may be held.
MOST_DEPTH = 1 << 20


@verb("prefetch")
@dataclass(frozen=True, eq=False, repr=False)
class Prefetch(Stage):
    """Make batches in background threads during the training steps; their order stays.

    Parameters
    ----------
    workers
        Background threads, each making whole batches; 0 makes them in the training loop's own thread.
    depth
        The largest number of batches that are being made or waiting, beyond the one in the training loop. This bounds
        the memory.
    eager
        Whether threads start with the epoch. Otherwise they start once the steps of the training loop take long enough
        for prefetching to pay off. Ranks that make batches together are always eager.

    Raises
    ------
    PlanError
        For workers that are not 0 to 4,096 or a depth that is not 1 to 1,048,576.
    """

    changes_batches: ClassVar[bool] = False
    takes: ClassVar[frozenset[str]] = frozenset({MINIBATCH, CONVERTED, ON_ITS_WAY})
    gives: ClassVar[str | None] = None
    threads: ClassVar[bool] = True
    keeps_ids_sound: ClassVar[bool] = True

    workers: int = 1
    depth: int = 2
    eager: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        for name, least, most in (("workers", 0, MOST_WORKERS), ("depth", 1, MOST_DEPTH)):
            value = whole_number(getattr(self, name), f"prefetch: {name}", least, PlanError, most)
            object.__setattr__(self, name, value)
        check_switches("prefetch", PlanError, eager=self.eager)
