"""Make batches ahead of the training loop, in background threads."""

from __future__ import annotations

from headrace.pipeline.machine import Machine
from headrace.pipeline.passes.rewrite import Pass, Promise, Rule, Window
from headrace.pipeline.stage import SourceStage
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.prefetch import Prefetch


def _insert(stages: Window, machine: Machine) -> Window | None:
    """Put a prefetch behind all that works on the CPU, unless the user has placed one or there is nothing to do ahead.

    The copy to a device stays with the training loop, whose current device and stream it uses.
    """
    place = next((i for i, stage in enumerate(stages) if isinstance(stage, CopyTo)), len(stages))
    placed = any(isinstance(stage, Prefetch) for stage in stages)
    if placed or machine.cores < 2 or all(isinstance(stage, SourceStage) for stage in stages[:place]):
        return None
    # One worker and two batches ahead hide sampling behind training: the kernels use the cores by themselves.
    return (*stages[:place], Prefetch(workers=1, depth=2), *stages[place:])


PREFETCH = Pass(
    "prefetch", Promise.SAME_BATCHES, rules=(Rule("prefetch before the first copy, or at the end", (), _insert),)
)
