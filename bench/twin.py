"""Many ranks in one process: each runs in a thread of its own, on the in-process twin of torch.distributed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import headrace as hr

T = TypeVar("T")


def run_twin(world_size: int, work: Callable[[Any], T], *, timeout: float = 600.0) -> list[T]:
    """Call `work` on every rank with the rank's comm; return what it returned, in the order of the ranks.

    An error on one rank is reported to the others and raised here.
    """
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(comm: Any) -> None:
        try:
            results[comm.rank] = work(comm)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)
            comm.fail(repr(error))

    threads = [threading.Thread(target=run, args=(comm,)) for comm in hr.testing.LocalGroup(world_size, timeout).comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in sorted(errors, key=lambda one: isinstance(one, hr.PeerError)):
        raise error
    return [results[rank] for rank in range(world_size)]
