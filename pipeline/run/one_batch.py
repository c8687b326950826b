"""A plan as a function from one batch, not yet sampled, to what a loader of the plan would make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.source import source_of
from headrace.pipeline.plan.stage import MapStage, RunSettings
from headrace.pipeline.plan.verify import check_data
from headrace.pipeline.run.tables import Tables


def one_batch(plan: Plan, *, num_threads: int | None = None) -> Callable[[MiniBatch], Any]:
    """Return the function that runs all stages behind the source on a batch, in the thread that calls it.

    What it draws is named by the seed of the plan, and by the epoch and the index of the batch. It holds no thread and
    may be called from several at once.

    Parameters
    ----------
    plan
        The plan; its source draws nothing here.
    num_threads
        Threads that one kernel call may use at most; by default the machine's cores.

    Raises
    ------
    PlanError
        If the plan is not legal.
    InputError
        If the data of two stages do not fit together.
    """
    machine = replace(Machine.detect(), rank=0, world_size=1)
    rewriting = rewrite(plan, machine, {"prefetch": False})
    final = rewriting.final
    check_data(plan)
    check_data(final)
    Tables(rewriting).check()
    source = source_of(final)
    settings = RunSettings(source.seed, source, machine.cores if num_threads is None else num_threads)
    runners = [stage.runner(settings) for stage in final.stages if isinstance(stage, MapStage)]

    def run(batch: MiniBatch) -> Any:
        made: Any = batch
        for runner in runners:
            made, _ = runner(made)
        return made

    return run
