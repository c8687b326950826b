"""A meeting that one rank gave up: those that come later learn it, and the next one is the same on all ranks."""

from __future__ import annotations

import threading

import pytest
from ranks import run_ranks

import headrace as hr

from plans import graph


@pytest.mark.slow
@pytest.mark.combinations(2)
@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.parametrize("size", [2, 3])
def test_ranks_meet_again_behind_a_meeting_that_was_given_up(size, cooperative):
    gave_up, told = (threading.Barrier(size, timeout=30.0) for _ in range(2))

    def load(comm: hr.Comm) -> tuple[str, int]:
        plan = hr.ItemSampler(60, batch_size=6, seed=0).sample_neighbor(graph(), [2])
        if comm.rank == 1:
            gave_up.wait()
        with pytest.raises(hr.PeerError) as caught:
            plan.loader(comm=comm, cooperative=cooperative)
        if comm.rank != 1:
            gave_up.wait()
        told.wait()
        with plan.loader(comm=comm, cooperative=cooperative) as loader:
            return str(caught.value), sum(len(batch.seeds) for batch in loader)

    told_by_rank = run_ranks(size, load, timeout=1.0)
    for error, _ in told_by_rank:
        assert "rank 1 did not come" in error
        assert "gave up to make this loader; to go on, all ranks make it once more" in error
    assert sum(count for _, count in told_by_rank) == 60
