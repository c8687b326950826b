"""Turns of cases that builds are compared by: their table, and a process that serves one of them.

A process makes one case and no other, so that its peak memory is that of the case.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from one_build import resident
from worker import Worker, serve


class Done(NamedTuple):
    """The work of a turn. Times are those of one batch, and both builds are to have as many rows."""

    batches: int
    rows: int


#: The part of a turn that is timed, and a function that makes it from the number of the turn.
Work = Callable[[], Done]
Turn = Callable[[int], Work]


@dataclass(frozen=True)
class Case:
    """A function that makes the turns of a case, those that make its files, and the threads that it may use."""

    prepare: Callable[[], Turn]
    inputs: tuple[Callable[[], Path], ...]
    threads: int


CASES: dict[str, Case] = {}
#: The threads of cases that leave their number to headrace.
CORES = len(os.sched_getaffinity(0))
#: Processes that take part in the turns of this one.
OTHERS: list[Worker] = []


def case(*inputs: Callable[[], Path], threads: int = 1) -> Callable[[Callable[[], Turn]], Callable[[], Turn]]:
    """Add a case by the name of its function."""

    def add(prepare: Callable[[], Turn]) -> Callable[[], Turn]:
        CASES[prepare.__name__.replace("_", " ")] = Case(prepare, inputs, threads)
        return prepare

    return add


def epochs(loader: Any) -> Turn:
    """Return turns that are epochs of a loader."""

    def work() -> Done:
        sizes = [len(batch.n_id) for batch in loader]
        return Done(len(sizes), sum(sizes))

    def turn(number: int) -> Work:
        loader.set_epoch(number)
        return work

    return turn


def timed(turn: Turn, number: int) -> dict[str, float]:
    """Run a turn, in the other processes as well.

    Returns
    -------
    dict
        Milliseconds and rows of a batch, and the peak so far in gigabytes; all but the time are sums over processes.
    """
    work = turn(number)
    gc.collect()
    with ThreadPoolExecutor(max(len(OTHERS), 1)) as pool:
        others = [pool.submit(other.call, "turn", number=number) for other in OTHERS]
        wall, cpu = time.perf_counter(), time.process_time()
        done = work()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        answers = [other.result() for other in others]
    own = {
        "CPU time": cpu / done.batches * 1e3,
        "peak memory": resident("VmHWM") / 1e9,
        "inputs": done.rows / done.batches,
    }
    sums = {metric: value + sum(answer[metric] for answer in answers) for metric, value in own.items()}
    return {"time": wall / done.batches * 1e3, **sums}


def serve_case(**joins: Callable[..., Turn]) -> None:
    """Answer calls that make a case and then run its turns, until the caller ends.

    Parameters
    ----------
    joins
        Other calls that make turns: those of a process that takes part in the turns of another one.
    """
    made: list[Turn] = []
    makers = {"prepare": lambda name: CASES[name].prepare(), **joins}
    methods = {
        name: lambda make=make, **values: made.append(make(**values))  # type: ignore[misc]
        for name, make in makers.items()
    }
    serve({**methods, "turn": lambda number: timed(made[0], number)})
    for other in OTHERS:
        other.close()
