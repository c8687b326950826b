"""The store by which ranks reach each other: gone, used by one job after another, asked no more than it must be."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
import torch.distributed

import headrace as hr
from headrace.pipeline.distributed.job_store import JobStore
from headrace.pipeline.distributed.leaving import Loops
from headrace.pipeline.distributed.progress import Progress

if not torch.distributed.is_available():
    pytest.skip("needs the stores of torch.distributed", allow_module_level=True)


class Store:
    """A store in memory that can go, and counts what it is asked."""

    def __init__(self) -> None:
        self._store = torch.distributed.HashStore()
        self._store.set_timeout(timedelta(seconds=1))
        self.is_gone = False
        self.num_requests = 0

    def __getattr__(self, name: str) -> Callable[..., object]:
        if self.is_gone:
            raise RuntimeError("recvValue failed: Connection was likely closed")
        self.num_requests += 1
        return getattr(self._store, name)


def ranks_of(store: object, world_size: int = 2) -> list[JobStore]:
    return [JobStore(store, rank, world_size) for rank in range(world_size)]


@pytest.mark.parametrize("call", ["receive", "begin", "ended", "look_for"])
def test_a_loop_says_that_the_store_is_gone(call):
    """Where it reads what others posted, between two batches."""
    store = Store()
    loops = Loops(1, JobStore(store, 1, 2))
    loop = loops.begin(0)
    loop.ask()
    store.is_gone = True
    calls = {
        "receive": lambda: loop.receive(0, 0),
        "begin": lambda: loops.begin(0),
        "ended": loops.ended,
        "look_for": lambda: loops.look_for(lambda rank: rank == 1),
    }
    loops._looked = 0.0
    with pytest.raises(hr.PeerError, match="rank 1 cannot reach the job's store any more"):
        calls[call]()


@pytest.mark.parametrize("call", ["is_reported", "said", "brought", "reported_error"])
def test_so_does_whatever_else_needs_the_store(call):
    store = Store()
    one = JobStore(store, 0, 2)
    store.is_gone = True
    with pytest.raises(hr.PeerError, match="rank 0 cannot reach the job's store any more"):
        getattr(one, call)("key")


def test_leaving_a_loop_raises_nothing_where_the_store_is_gone():
    """It may be done by a destructor."""
    store = Store()
    loops = Loops(1, JobStore(store, 1, 2))
    loop = loops.begin(0)
    loop.ask()
    loop.receive(0, 0)
    store.is_gone = True
    loop.leave()
    loops.end("")


def test_a_further_job_on_the_same_store_begins_anew():
    """As where a program ends a job and begins another one under torchrun, which keeps the store."""
    store = Store()
    for job in range(3):
        first, second = ranks_of(store)
        assert first.read() == []
        assert not first.is_reported("failed/0")
        assert first.said("beat") == [0, 0]
        assert first.brought("meeting") == {}
        second.post(f"job {job}")
        assert first.read() == [(1, f"job {job}")]
        second.report("failed/0", f"job {job}")
        assert f"job {job}" in str(first.reported_error("failed/0"))
        second.say("beat", 3)
        assert first.said("beat") == [0, 3]
        second.arrive("meeting", "here")
        assert first.brought("meeting") == {1: "here"}
        assert not first.all_agree("meeting", "here")


@pytest.mark.parametrize("world_size", [2, 64])
def test_a_waiting_rank_asks_the_store_no_more_the_more_ranks_there_are(world_size):
    store = Store()
    ranks = ranks_of(store, world_size)
    progresses = [Progress() for _ in ranks]

    def seen_by_first(expected: dict[int, int]) -> int:
        """Look; return the requests."""
        before = store.num_requests
        assert {rank: asked.number for rank, asked in ranks[0].asked(0).items()} == expected
        return store.num_requests - before

    assert seen_by_first({}) == 1
    for one, progress in zip(ranks, progresses, strict=True):
        progress.ask("went on to a batch")
        one.say_what_was_asked(progress)
    expected_numbers = dict.fromkeys(range(world_size), 1)
    assert seen_by_first(expected_numbers) > world_size
    assert [seen_by_first(expected_numbers) for _ in range(3)] == [1, 1, 1]
    progresses[1].ask("went on to a further batch")
    ranks[1].say_what_was_asked(progresses[1])
    seen_by_first({**expected_numbers, 1: 2})
    assert seen_by_first({**expected_numbers, 1: 2}) == 1
    ranks[1].say("collectives", 3)
    before = store.num_requests
    assert ranks[0].said_by(1, "collectives") == 3
    assert store.num_requests == before + 1
    assert ranks[0].asked(1) == {}  # all began anew


def test_many_ranks_look_less_often():
    sizes = (1, 8, 16, 80, 200, 10_000)
    assert [JobStore(Store(), 0, size).look_every for size in sizes] == [0.2, 0.2, 0.4, 2.0, 5.0, 5.0]
    assert Loops(0, JobStore(Store(), 0, 80)).look_every == 2.0
