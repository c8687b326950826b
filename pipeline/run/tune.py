"""Find threads and prefetch workers by short runs of a plan: ``loader(tune=True)``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.ops.errors import PlanError
from headrace.pipeline.plan import Machine, Plan, source_of
from headrace.pipeline.stages.other_sources import NodeSource
from headrace.pipeline.stages.steps import Prefetch

if TYPE_CHECKING:
    from headrace.pipeline.run.loader import Loader

#: Of a run, after its first batch and over as many epochs as it takes, and batches of it at most.
SECONDS_OF_RUN, BATCHES_OF_RUN = 0.5, 200
#: Runs of each choice, in turns.
ROUNDS = 2
#: A choice that takes less of the machine is preferred where it is as fast but for such a part.
NEARLY = 0.95


class Choice(NamedTuple):
    """How to run a plan.

    Parameters
    ----------
    num_threads
        Of one kernel call.
    workers
        Background threads that make whole batches; None where the plan says it.
    """

    num_threads: int
    workers: int | None

    @property
    def cost(self) -> tuple[int, int]:
        """What it takes of the machine: threads at work, then background threads."""
        return self.num_threads * (self.workers or 1), self.workers or 0

    def applied(self, plan: Plan) -> Plan:
        """Return the plan with these workers."""
        return plan if self.workers is None else plan.prefetch(workers=self.workers, depth=self.workers + 1)

    def code(self, arguments: Mapping[str, Any]) -> str:
        """Return the code to write, with the user's own arguments of the loader; objects have the names of theirs."""
        prefetch = "" if self.workers is None else f".prefetch(workers={self.workers}, depth={self.workers + 1})"
        own = [f"{name}={one if isinstance(one, int) else name}" for name, one in arguments.items()]
        return f"plan{prefetch}.loader({', '.join([f'num_threads={self.num_threads}', *own])})"


def tune(
    plan: Plan,
    make: Callable[[Plan, int], Loader[Any]],
    cores: int,
    num_ranks: int,
    num_threads: int | None,
    arguments: Mapping[str, Any],
) -> tuple[Plan, int]:
    """Return the plan and the threads that make batches fastest, and print them as they are written.

    Parameters
    ----------
    plan
        The plan. If it has a ``prefetch``, only threads are chosen, as with ``prefetch=False`` among the arguments.
    make
        Makes a loader of a plan with so many threads.
    cores, num_ranks
        Of this process, and of the processes that share the batches.
    num_threads
        Threads that are chosen already.
    arguments
        The other arguments of the loader that the user gave, for the code that is printed.

    Raises
    ------
    PlanError
        If several ranks share the batches, the source cannot be run twice, or this process has fewer cores.
    """
    if num_ranks > 1:
        raise PlanError(
            f"loader: expected tune=True in one process, got one of {num_ranks} ranks; tune a loader of one "
            "rank first, loader(rank=0, world_size=1, tune=True), and write the prefetch and num_threads that it prints"
        )
    here = Machine.detect().cores
    if cores > here:
        raise PlanError(
            f"loader: expected a machine of at most the {here} cores that are here for tune=True, which measures, got "
            f"machine= of {cores}; leave out tune, or machine="
        )
    if isinstance(source_of(plan), NodeSource):
        raise PlanError(
            "loader: expected a source that can be run twice for tune=True, got node_source; leave out tune"
        )
    choices = _choices(plan, cores, num_threads, prefetches=arguments.get("prefetch") is not False)
    began = time.perf_counter()
    rates = dict.fromkeys(choices, 0.0)
    _rate(make(choices[0].applied(plan), choices[0].num_threads))  # tables and page caches are made for all
    for _ in range(ROUNDS):
        for choice in choices:
            rates[choice] = max(rates[choice], _rate(make(choice.applied(plan), choice.num_threads)))
    most = max(rates.values())
    best = min((choice for choice in choices if rates[choice] >= NEARLY * most), key=lambda choice: choice.cost)
    seconds = time.perf_counter() - began
    slowest = min(rates.values())
    found = f"{rates[best]:,.0f} batches/s with {best.code(arguments)} (slowest: {slowest:,.0f})"
    print(f"tuned in {seconds:.1f} s: {found}")  # noqa: T201 - asked for
    return best.applied(plan), best.num_threads


def _choices(plan: Plan, cores: int, num_threads: int | None, *, prefetches: bool) -> list[Choice]:
    """Return what to try: powers of two up to the cores, which threads and workers share, twice over at most."""
    powers = sorted({1, cores} | {1 << bits for bits in range(cores.bit_length()) if 1 << bits <= cores})
    has_own = any(isinstance(stage, Prefetch) for stage in plan.stages)
    workers = [None] if has_own or not prefetches else powers[:5]
    threads = powers if num_threads is None else [num_threads]
    return [
        Choice(number, worker)
        for number in threads
        for worker in workers
        if number * (worker or 1) <= 2 * cores or (num_threads is not None and worker == 1)
    ]


def _rate(loader: Loader[Any]) -> float:
    """Return batches in a second, of a short run after the first batch; small epochs are begun again."""
    with loader:
        batches = iter(loader)
        if next(batches, None) is None:
            return 0.0
        begin, count, seconds = time.perf_counter(), 0, 0.0
        while count < BATCHES_OF_RUN and seconds <= SECONDS_OF_RUN:
            if next(batches, None) is None:
                batches = iter(loader)
            else:
                count += 1
            seconds = time.perf_counter() - begin
    return count / seconds
