"""A meeting at the store of a job that one rank gave up: those that come later learn it."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import torch.distributed as dist

import headrace as hr
from headrace.pipeline.distributed.job_store import JobStore
from headrace.pipeline.distributed.leaving import Loops
from headrace.pipeline.distributed.meeting import texts_of_ranks


@pytest.mark.parametrize("size", [2, 3])
def test_a_meeting_at_the_store_is_given_up_for_all(size, tmp_path):
    """Who comes later would meet a rank that has gone on, and be one meeting behind it ever after."""
    stores = [JobStore(dist.FileStore(str(tmp_path / "store"), size), rank, size) for rank in range(size)]
    results: dict[int, list[str]] = {}

    def meet(rank: int, timeout: float) -> list[str]:
        return texts_of_ranks(stores[rank], Loops(rank, stores[rank]), f"of {rank}", timeout=timeout)

    def give_up(rank: int) -> None:
        with pytest.raises(hr.PeerError, match="rank 1 did not come"):
            meet(rank, 0.5)

    def again(rank: int) -> None:
        results[rank] = meet(rank, 30.0)

    for work, ranks in ((give_up, [rank for rank in range(size) if rank != 1]), (again, range(size))):
        threads = [threading.Thread(target=work, args=(rank,)) for rank in ranks]
        for thread in threads:
            thread.start()
        if work is again:
            continue
        for thread in threads:
            thread.join()
        with pytest.raises(hr.PeerError, match="gave up to make this loader"):
            meet(1, 0.5)
    for thread in threads:
        thread.join(60.0)
    expected = [f"of {rank}" for rank in range(size)]
    assert results == dict.fromkeys(range(size), expected)
    assert not {store.num_meetings for store in stores} - {2}


def test_a_rank_that_gives_up_as_the_last_one_comes_meets_it(tmp_path):
    store = dist.FileStore(str(tmp_path / "store"), 2)
    store.set_timeout(timedelta(seconds=5))
    first, second = (JobStore(store, rank, 2) for rank in range(2))
    assert first.first("meeting/outcome", "met") == "met"
    assert second.first("meeting/outcome", "given up") == "met"
    assert second.get("meeting/outcome") == "met"
