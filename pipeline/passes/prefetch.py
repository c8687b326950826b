"""Make batches ahead of the training loop, in background threads."""

from __future__ import annotations

from headrace.pipeline.lowered.exchange_ids import ExchangeIds
from headrace.pipeline.lowered.exchange_rows import ExchangeRows
from headrace.pipeline.lowered.fetch_and_exchange import FetchAndExchange
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Pass, Promise, Rule, Window
from headrace.pipeline.plan.source import SourceStage
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.prefetch import Prefetch

# A thread that samples and one that exchanges rows, beside the training loop and the network's own.
LEAST_CORES_TO_SPLIT = 4


def _insert(stages: Window, machine: Machine) -> Window | None:
    """Put a prefetch behind all that works on the CPU, unless the user has placed one or there is nothing to do ahead.

    The copy to a device stays with the training loop, whose current device and stream it uses.
    """
    place = next((i for i, stage in enumerate(stages) if isinstance(stage, CopyTo)), len(stages))
    placed = any(isinstance(stage, Prefetch) for stage in stages)
    if placed or machine.cores < 2 or all(isinstance(stage, SourceStage) for stage in stages[:place]):
        return None
    # One worker and two batches ahead hide sampling behind training: the kernels use the cores by themselves. It starts
    # where there is something to hide; ranks in lockstep cannot wait for that.
    eager = any(stage.collective for stage in stages)
    return (*stages[:place], Prefetch(workers=1, depth=2, eager=eager), *stages[place:])


def _insert_two(stages: Window, machine: Machine) -> Window | None:
    """Put another one before features that go from rank to rank: on their way the next batch is sampled."""
    ahead = _insert(stages, machine)
    rows = _start_of_rows(stages)
    if ahead is None or rows is None or machine.cores < LEAST_CORES_TO_SPLIT:
        return None
    return (*ahead[:rows], Prefetch(workers=1, depth=1), *ahead[rows:])


def _start_of_rows(stages: Window) -> int | None:
    """Return the place behind which features go from rank to rank, if any do."""
    if not any(isinstance(one, FetchAndExchange) or (isinstance(one, ExchangeRows) and one.names) for one in stages):
        return None
    exchanges = [(i, stage) for i, stage in enumerate(stages) if isinstance(stage, ExchangeIds)]
    # Ids that are only lent belong to the fetch behind them.
    lent = [i for i, stage in exchanges if not stage.renumber]
    return lent[0] if lent else exchanges[-1][0] + 1


PREFETCH = Pass(
    "prefetch",
    Promise.SAME_BATCHES,
    rules=(
        Rule("prefetch before rows are exchanged, and before the first copy, or at the end", (), _insert_two),
        Rule("prefetch before the first copy, or at the end", (), _insert),
    ),
)
