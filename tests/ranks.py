"""Several ranks in one process: what each of them does runs in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import headrace as hr
from headrace.pipeline.comm import Comm

T = TypeVar("T")


def run_ranks(world_size: int, work: Callable[[Comm], T], *, timeout: float = 60.0) -> list[T]:
    """Run `work` on every rank; return the results in the order of the ranks, or raise the first rank's own error."""
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}

    def run(comm: Comm) -> None:
        try:
            results[comm.rank] = work(comm)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors[comm.rank] = error
            comm.fail(repr(error))

    threads = [threading.Thread(target=run, args=(comm,)) for comm in hr.LocalGroup(world_size, timeout).comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in sorted(errors.values(), key=lambda one: isinstance(one, hr.PeerError)):
        raise error
    return [results[rank] for rank in range(world_size)]


def cooperative_batches(plan: hr.Stage, world_size: int, **options: object) -> list[list[hr.MiniBatch]]:
    """All batches of an epoch on every rank."""

    def work(comm: Comm) -> list[hr.MiniBatch]:
        with plan.loader(cooperative=True, comm=comm, **options) as loader:
            return list(loader)

    return run_ranks(world_size, work)
