"""Make batches ahead of the training loop, in background threads.

Rules on the whole plan: whether to prefetch, and where, depends on all that stands before the first copy.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.plan.stage import WindowStage
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.prefetch import Prefetch

# A thread that samples and one that exchanges rows, beside the training loop and the network's own.
LEAST_CORES_TO_SPLIT = 4


def _insert(stages: Window, machine: Machine) -> Window | None:
    """Put a prefetch behind all that works on the CPU, unless the user has put one or there is nothing to do ahead.

    The copy to a device stays with the training loop, whose current device and stream it uses.
    """
    position = next((i for i, stage in enumerate(stages) if isinstance(stage, CopyTo)), len(stages))
    placed = any(stage.threads for stage in stages)
    if placed or machine.cores < 2 or position == 1:
        return None
    # One worker and two batches ahead hide sampling behind training: the kernels use the cores by themselves. It starts
    # where there is something to hide; ranks in lockstep cannot wait for that.
    eager = any(stage.collective for stage in stages)
    return (*stages[:position], Prefetch(workers=1, depth=2, eager=eager), *stages[position:])


def _insert_two(stages: Window, machine: Machine) -> Window | None:
    """Put another one before features that go from rank to rank: on their way the next batch is sampled."""
    ahead = _insert(stages, machine)
    rows = _start_of_rows(stages)
    if ahead is None or rows is None or machine.cores < LEAST_CORES_TO_SPLIT:
        return None
    return (*ahead[:rows], Prefetch(workers=1, depth=1), *ahead[rows:])


def _insert_before_window(stages: Window, machine: Machine) -> Window | None:
    """Put another one before a stage that knows the batches to come: on the way of its rows the next are sampled."""
    window = next((i for i, stage in enumerate(stages) if isinstance(stage, WindowStage)), 0)
    behind = next((stage for stage in stages[window:] if isinstance(stage, Prefetch)), None)
    sampled_apart = any(stage.threads for stage in stages[:window])
    if window < 2 or sampled_apart or behind is None or behind.workers == 0 or machine.cores < 2:
        return None
    # The window makes its batches one after the other, so the threads that the user wants for batches sample them.
    return (*stages[:window], replace(behind), *stages[window:])


def _start_of_rows(stages: Window) -> int | None:
    """Return the position from which features go from rank to rank, if any do."""
    if not any(stage.collective and "node" in stage.writes for stage in stages):
        return None
    exchanges = [position for position, stage in enumerate(stages) if "exchanges" in stage.writes]
    # Ids that are exchanged for a fetch alone belong to the fetch behind them.
    for_fetch = [position for position in exchanges if stages[position].keeps_rows]
    return for_fetch[0] if for_fetch else exchanges[-1] + 1


RULES = (
    Rule("prefetch before rows are exchanged, and before the first copy, or at the end", (), _insert_two),
    Rule("prefetch before the first copy, or at the end", (), _insert),
    Rule("prefetch before a window of batches", (), _insert_before_window),
)
