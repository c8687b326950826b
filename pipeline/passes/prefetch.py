"""Make batches ahead of the training loop, in background threads.

A rule on the whole plan: whether to prefetch, and where, depends on all stages before the first copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.pipeline.plan import Facts, Machine, Rule, Window, WindowStage
from headrace.pipeline.stages.steps import Prefetch

# A thread that samples and one that exchanges rows, besides the training loop and that of the network.
LEAST_CORES_TO_SPLIT = 4


def _insert(stages: Window, facts: Sequence[Facts], machine: Machine) -> Window | None:
    """Add a prefetch after all stages on the CPU, unless the user has added one or no stage has work to do ahead.

    The copy to a device stays with the training loop, whose current device and stream it uses. Where features go from
    rank to rank, another one before them samples the next batch on their way.
    """
    position = next((i for i, known in enumerate(facts) if known.place is not None), len(facts)) - 1
    if facts[-1].threads or machine.cores < 2:
        return None
    if position == 1:
        return _behind_work_of_gpu(stages, machine)
    # One worker and two batches ahead hide sampling behind training: the kernels use the cores by themselves. It starts
    # where there is something to hide; ranks in lockstep cannot wait for that.
    eager = any(stage.ranks.collective for stage in stages)
    ahead = (*stages[:position], Prefetch(workers=1, depth=2, eager=eager), *stages[position:])
    rows = _start_of_rows(stages)
    if rows is None or rows > position or machine.cores < LEAST_CORES_TO_SPLIT:
        return ahead
    return (*ahead[:rows], Prefetch(workers=1, depth=1), *ahead[rows:])


def _behind_work_of_gpu(stages: Window, machine: Machine) -> Window | None:
    """Add a prefetch behind what a GPU does for seeds that are copied there first, so that it is done ahead."""
    place = stages[1].moves_to if len(stages) > 2 else None
    if machine.gpus == 0 or place is None or place.kind != "cuda" or any(stage.ranks.collective for stage in stages):
        return None
    from headrace.pipeline.lowered.gpu.on_stream import runs_on_stream

    end = next((i for i in range(2, len(stages)) if not runs_on_stream(stages[i])), len(stages))
    return None if end == 2 else (*stages[:end], Prefetch(workers=1, depth=2), *stages[end:])


def _insert_before_window(
    window: WindowStage, between: Window, behind: Prefetch, facts: Facts, machine: Machine
) -> Window | None:
    """Add another prefetch before a stage that knows the coming batches, which are sampled during its reads."""
    if facts.threads or facts.last is facts.source or behind.workers == 0 or machine.cores < 2:
        return None
    # The window makes its batches one after the other, so the user's threads for batches sample them.
    return (replace(behind), window, *between, behind)


def _start_of_rows(stages: Window) -> int | None:
    """Return the position of the first exchange of features between ranks, if any."""
    if not any(stage.ranks.collective and "node" in stage.writes for stage in stages):
        return None
    exchanges = [position for position, stage in enumerate(stages) if "exchanges" in stage.writes]
    # An exchange of ids for a fetch alone belongs to that fetch.
    for_fetch = [position for position in exchanges if stages[position].ranks.keeps_rows]
    return for_fetch[0] if for_fetch else exchanges[-1] + 1


RULES = (
    Rule("prefetch before the first copy, or at the end, and before rows are exchanged", (), _insert),
    Rule("prefetch before a window of batches", (WindowStage, ..., Prefetch), _insert_before_window),
)
