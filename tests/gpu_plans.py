"""Plans as passes make them for machines with GPUs, and as they run where the CPU stands in for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from described_plans import GPU, copied_first, fetched

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.pipeline.lowered.gpu.on_stream import OnItsWay
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.settings import RunSettings

from cuda_host.stand_in import StandIn

__all__ = ["GPU", "copied_first", "digests", "fetched", "launched", "names"]


def names(plan: hr.Plan, machine: hr.Machine = GPU, **switches: bool) -> list[str]:
    """The stages that run."""
    return [stage.name for stage in rewrite(plan, machine, switches).final.stages]


def launched(stages: Sequence[hr.ext.Stage], settings: RunSettings) -> Callable[[hr.MiniBatch], OnItsWay]:
    """The function that launches, on a batch, the stages from on_stream up to the prefetch, as a thread does."""
    start = next(number for number, stage in enumerate(stages) if stage.stream == "launch")
    end = next(number for number in range(start, len(stages)) if stages[number].name == "prefetch")
    launch = stages[start].launcher_of()
    launchers = [stage.launcher(settings) for stage in stages[start + 1 : end]]

    def run(batch: hr.MiniBatch) -> hr.MiniBatch:
        for launcher in launchers:
            batch, _ = launcher(batch)
        return batch

    return lambda batch: OnItsWay(*launch(batch, run))


def digests(plan: hr.Plan, machine: hr.Machine = GPU, **switches: bool) -> list[str]:
    """Those of an epoch's batches, with a stand-in for GPUs that the machine has."""
    place = {"machine": machine, "rank": machine.rank, "world_size": machine.world_size}
    if not machine.gpus:
        return [batch.digest() for batch in plan.loader(**place, **switches)]
    with stand_in(StandIn()), plan.loader(**place, **switches) as loader:
        return [batch.digest() for batch in loader]
