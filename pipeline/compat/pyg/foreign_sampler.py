"""A sampler of PyG or of the user as a stage: what a loader runs that was given one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import CONVERTED, Counts, MapStage, Runner


@dataclass(frozen=True, eq=False, repr=False)
class ForeignSampler(MapStage):
    """Let another ``BaseSampler`` sample; what it draws is named by no seed of the plan.

    Parameters
    ----------
    sample
        From the items of a batch, int64[num_seeds], to a ``SamplerOutput``.
    """

    name: ClassVar[str] = "foreign_sampler"
    gives: ClassVar[str | None] = CONVERTED

    sample: Callable[[Any], Any]

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"item_index"})

    def runner(self, settings: RunSettings) -> Runner:
        del settings

        def run(batch: MiniBatch) -> tuple[Any, Counts]:
            return self.sample(batch.item_index), {}

        return run
