"""From a ``SamplerOutput`` to the batch that the user gets, as a stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.pipeline.plan.stage import CONVERTED, Counts, MapStage, Runner, RunSettings


@dataclass(frozen=True, eq=False, repr=False)
class Finish(MapStage):
    """Pass what came from a sampler through a function: it joins attributes, or is the user's transform.

    Parameters
    ----------
    function
        From a ``SamplerOutput`` or a ``Data`` to a ``Data``; the second argument is the number of threads it may use.
    label
        What it does, the name of the stage in stats.
    """

    takes: ClassVar[frozenset[str]] = frozenset({CONVERTED})
    gives: ClassVar[str | None] = CONVERTED
    changes_batches: ClassVar[bool] = False

    function: Callable[[Any, int], Any]
    label: str

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.label

    def runner(self, settings: RunSettings) -> Runner:
        def run(batch: Any) -> tuple[Any, Counts]:
            made = self.function(batch, settings.num_threads)
            return made, {}

        return run
