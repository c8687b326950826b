"""A user's function as a stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from headrace.ops.errors import PlanError
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.stage import Counts, MapStage, Runner, RunSettings
from headrace.pipeline.plan.text import describe
from headrace.pipeline.plan.traits import RankTraits
from headrace.pipeline.plan.verbs import verb


@verb("transform")
@dataclass(frozen=True, eq=False, repr=False)
class Transform(MapStage):
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

    function: Callable[[MiniBatch], MiniBatch]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise PlanError(
                f"transform: expected a function from MiniBatch to MiniBatch, got {type(self.function).__name__}"
            )

    def runner(self, settings: RunSettings) -> Runner:
        del settings

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            result = self.function(batch)
            if not isinstance(result, MiniBatch):
                raise PlanError(
                    f"transform: expected {describe(self)} to return a MiniBatch, got {type(result).__name__}; "
                    "return batch.replace(...), as a batch is not changed in place"
                )
            return result, {}

        return run
