"""Ranks of which one leaves the others."""

from __future__ import annotations

import time
from collections.abc import Callable

from ranks import run_ranks

import headrace as hr

from plans import graph, items, store

SOON = 8.0  # where a collective would wait for 60 seconds


def loader_of(comm: hr.Comm, **options: object) -> hr.Loader:
    plan = items(batch_size=7).sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"])
    return plan.loader(cooperative=True, comm=comm, **options)


def all_of(world_size: int, work: Callable[[hr.Comm], object], timeout: float = 60.0) -> list[str]:
    """Run ranks; return the error of each, none of which may take long."""

    def run(comm: hr.Comm) -> str:
        try:
            work(comm)
        except hr.PeerError as error:
            return str(error)
        return ""

    began = time.monotonic()
    errors = run_ranks(world_size, run, timeout=timeout)
    assert time.monotonic() - began < SOON
    return errors
