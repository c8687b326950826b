"""Ranks that part: whoever goes on is told at once which rank did not, and where it was."""

from __future__ import annotations

import gc
import threading
import time

import pytest
from ranks import run_ranks

import headrace as hr
from headrace.testing import LocalGroup

from parting import SOON, all_of, loader_of


@pytest.mark.combinations(3)
@pytest.mark.parametrize("prefetch", [True, False])
@pytest.mark.parametrize("closed", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("world_size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_rank_that_breaks_is_named(world_size, closed, prefetch):
    """Also where it neither closes its loader nor ends."""
    over = threading.Event()

    def work(comm: hr.Comm) -> None:
        loader = loader_of(comm, prefetch=prefetch)
        try:
            for batch in loader:
                if comm.rank == 1 and batch.index == 3:
                    break
        finally:
            if comm.rank == 0:
                over.set()
        if comm.rank == 1 and closed:
            loader.close()
        if comm.rank == 1:
            assert over.wait(SOON)

    errors = all_of(world_size, work)
    assert errors.pop(1) == ""
    assert all("rank 1 left epoch 0 after batch 3" in error for error in errors)


@pytest.mark.slow
def test_a_rank_that_waits_in_vain_after_it_left_names_itself():
    """Others are in backward(), where no channel of headrace shows who waits."""
    group = LocalGroup(2, 1.0)
    over = threading.Event()
    errors = []

    def work(comm: hr.Comm) -> None:
        loader = loader_of(comm, prefetch=False)
        for batch in loader:
            if batch.index == 2:
                assert comm.rank == 1 or over.wait(SOON)  # in the middle of its loop
                break
        if comm.rank == 1:
            try:
                next(iter(loader))
            except hr.PeerError as error:
                errors.append(str(error))
            over.set()

    threads = [threading.Thread(target=work, args=(comm,)) for comm in group.comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "rank 0" in errors[0]
    assert "Rank 1 left epoch 0 after batch 2 before: if the others did not, they are still in that loop" in errors[0]


@pytest.mark.combinations(2)
@pytest.mark.parametrize(
    "leave", ["iter", *(pytest.param(way, marks=pytest.mark.slow) for way in ("set_epoch", "close", "del", "collect"))]
)
def test_every_way_to_leave_is_reported(leave):
    def work(comm: hr.Comm) -> None:
        loader = loader_of(comm)
        iteration = iter(loader)
        for batch in iteration:
            if comm.rank == 1 and batch.index == 2:
                if leave == "iter":
                    loader = iter(loader)
                elif leave == "del":
                    del iteration, loader
                elif leave == "collect":
                    cycle = [iteration]
                    cycle.append(cycle)
                    del iteration, loader, cycle
                else:
                    getattr(loader, leave)(*[5] * (leave == "set_epoch"))
                break
        if leave == "collect":
            gc.collect()

    first, _ = all_of(2, work)
    assert "rank 1 left epoch 0 after batch 2" in first


@pytest.mark.slow
@pytest.mark.parametrize("prefetch", [True, False])
def test_ranks_that_leave_together_go_on(prefetch):
    """Whatever one of them is ahead of the others."""

    def work(comm: hr.Comm) -> list[int]:
        seen = []
        with loader_of(comm, prefetch=prefetch) as loader:
            for last in (3, 0, 100, 14):  # 14 is the last one: nothing is left to leave
                for batch in loader:
                    seen.append(batch.epoch * 100 + batch.index)
                    if batch.index == last:
                        break
                time.sleep(0.3 * comm.rank)
        return seen

    expected = [*range(4), 100, *range(200, 215), *range(300, 315)]
    assert run_ranks(3, work) == [expected] * 3


@pytest.mark.slow
@pytest.mark.parametrize("prefetch", [True, False])
def test_an_iteration_that_asked_for_nothing_is_no_loop(prefetch):
    """One rank may make it alone, as to look at its length."""

    def work(comm: hr.Comm) -> list[int]:
        seen = []
        with loader_of(comm, prefetch=prefetch) as loader:
            if comm.rank == 1:
                iteration = iter(loader)
                del iteration
            for last in (3, 5):
                for batch in loader:
                    seen.append(batch.epoch * 100 + batch.index)
                    if batch.index == last:
                        break
                time.sleep(0.3 * (1 - comm.rank))  # rank 1 goes on first
        return seen

    assert run_ranks(2, work) == [[*range(4), *range(100, 106)]] * 2


@pytest.mark.slow
def test_leaving_at_different_batches_is_found_by_the_next_epoch():
    """Where every rank leaves before it asks for a batch that another one lacks."""
    both = threading.Barrier(2, timeout=SOON)

    def work(comm: hr.Comm) -> None:
        with loader_of(comm) as loader:
            for batch in loader:
                if batch.index == 3 + comm.rank:
                    both.wait()  # rank 1 has its batch before rank 0 leaves
                    break
            both.wait()  # and both have left before one of them is in the next epoch
            list(loader)

    errors = all_of(2, work)
    assert "rank 0 left epoch 0 after batch 3" in errors[1]
    assert "rank 0 left epoch 0 after batch 3" in errors[0]


def test_ranks_in_different_epochs_are_named():
    def work(comm: hr.Comm) -> None:
        with loader_of(comm) as loader:
            loader.set_epoch(2 * comm.rank)
            list(loader)

    for error in all_of(2, work):
        assert "of batch 0 of epoch 0" in error
        assert "of batch 0 of epoch 2" in error
        assert "rank 0" in error
        assert "rank 1" in error


@pytest.mark.slow
def test_ranks_that_parted_begin_anew_with_a_further_loader():
    """What was left is forgotten with the loops, but not while one of them still runs."""

    def work(comm: hr.Comm) -> tuple[str, int]:
        told = ""
        try:
            with loader_of(comm) as loader:
                for batch in loader:
                    if comm.rank == 1 and batch.index == 1:
                        break
                list(loader)
        except hr.PeerError as error:
            told = str(error)
        for _ in range(2):
            with loader_of(comm) as loader:
                num_batches = len(list(loader))
        return told, num_batches

    for told, num_batches in run_ranks(2, work):
        assert "rank 1 left epoch 0 after batch 1" in told
        assert num_batches == 15
