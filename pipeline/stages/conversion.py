"""The base of stages that convert a batch to an object of another library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.ops.errors import PlanError
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.plan.stage import CONVERTED, MapStage, Stage


@dataclass(frozen=True, eq=False, repr=False)
class Conversion(MapStage):
    """Base of the stages after which a batch is not a MiniBatch: only prefetches and copies may follow.

    The batches are the same in another form, so a checkpoint can be loaded with or without the stage.
    """

    changes_batches: ClassVar[bool] = False
    reads_at: ClassVar[Place | None] = CPU
    gives: ClassVar[str | None] = CONVERTED

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks"})

    def check(self, before: tuple[Stage, ...]) -> None:
        if any(stage.ranks.shares_layers for stage in before):
            raise PlanError(
                f"{self.name}: ranks make the batches together, and their layers exchange rows in the model, which "
                f"needs the MiniBatch; leave out {self.name}() and run the model by hr.cooperative, or set "
                "cooperative=False"
            )


def sampled_hops(before: tuple[Stage, ...]) -> list[Stage]:
    """Return for each hop the stage that makes its block, as far as there is a choice about it.

    A stage without such a choice puts one block of its own, of a subgraph, in the place of those before it.
    """
    samplers: list[Stage] = []
    for stage in before:
        if "blocks" in stage.writes:
            has_choice = hasattr(stage, "expand") and getattr(stage, "keep", "block") == "block"
            samplers = [*samplers, stage] if has_choice else []
    return [stage for stage in samplers for _ in range(max(1, stage.num_hops))]
