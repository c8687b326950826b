"""Prefetching: everything upstream runs in background threads, ahead of the training loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.ops.errors import PlanError
from headrace.pipeline.arrays import whole_number
from headrace.pipeline.stage import Stage, verb


@verb("prefetch")
@dataclass(frozen=True, eq=False, repr=False)
class Prefetch(Stage):
    """Make batches in background threads while the training loop works; their order stays.

    Parameters
    ----------
    workers
        Background threads, each making whole batches; 0 makes them in the training loop's own thread.
    depth
        Most batches held at once, being made or waiting, beyond the one that the training loop has. This bounds the
        memory.
    eager
        Whether threads start with the epoch. Otherwise they do when the training loop has taken long enough, batch for
        batch, for batches made ahead to be worth handing over. Ranks that make batches together are always eager.

    Raises
    ------
    PlanError
        For negative workers or a depth below 1.
    """

    changes_batches: ClassVar[bool] = False

    workers: int = 1
    depth: int = 2
    eager: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        for name, least in (("workers", 0), ("depth", 1)):
            value = whole_number(getattr(self, name), f"prefetch: {name}", least, PlanError)
            object.__setattr__(self, name, value)
