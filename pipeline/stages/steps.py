"""Stages that any plan may have anywhere: a function of the user, and background threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.ops.errors import PlanError
from headrace.pipeline.data import MiniBatch, check_switches, whole_number
from headrace.pipeline.plan.plan import verb
from headrace.pipeline.plan.stage import CONVERTED, MINIBATCH, PADDED, Counts, PlainStage, Stage
from headrace.pipeline.plan.text import describe
from headrace.pipeline.plan.traits import RankTraits

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
    takes: ClassVar[frozenset[str]] = frozenset({MINIBATCH, PADDED, CONVERTED})
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


@verb("transform")
@dataclass(frozen=True, eq=False, repr=False)
class Transform(PlainStage):
    """Pass every batch through a function.

    The function must depend on nothing but the batch; use ``batch.epoch`` and ``batch.index`` to key its own
    randomness. It may run in a background thread, ahead of the training loop. It may run again for the same batch:
    after a resume, and after a write to features that were read for the batch (`FeatureStore`). Return
    ``batch.replace(...)``; do not change the batch.

    Parameters
    ----------
    function
        Takes a MiniBatch, returns a MiniBatch.

    Raises
    ------
    PlanError
        If `function` is not callable, or, when run, returns anything but a MiniBatch.
    """

    ranks: ClassVar[RankTraits] = RankTraits(same_parameters=False)  # a function may know its rank
    calls_users: ClassVar[bool] = True
    takes: ClassVar[frozenset[str]] = frozenset({MINIBATCH, PADDED})
    gives: ClassVar[str | None] = None

    function: Callable[[MiniBatch], MiniBatch]

    def __post_init__(self) -> None:
        if not callable(self.function) or isinstance(self.function, type):
            is_class = isinstance(self.function, type)
            kind = f"the class {self.function.__name__}" if is_class else type(self.function).__name__
            raise PlanError(f"transform: expected a function from MiniBatch to MiniBatch, got {kind}")
        from headrace.pipeline.data.own_methods import check_takes  # few plans have a function

        check_takes(self.function, "transform: function", PlanError, "batch")

    def run(self, batch: MiniBatch) -> tuple[MiniBatch, Counts]:
        result = self.function(batch)
        if not isinstance(result, MiniBatch):
            raise PlanError(
                f"transform: expected {describe(self)} to return a MiniBatch, got {type(result).__name__}; "
                "return batch.replace(...), as a batch is not changed in place"
            )
        return result, {}
