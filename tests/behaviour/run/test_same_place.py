"""Ranks with shares of their own begin each iteration at the same place, or are told which of them does not."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
from ranks import run_ranks

import headrace as hr

SIZES = [2, 3]
BATCHES = 5


def make(comm: hr.Comm) -> hr.Loader:
    return hr.ItemSampler(BATCHES * 6, batch_size=6, shuffle=True, seed=0).loader(comm=comm)


def state_of(epoch: int, batch: int) -> dict[str, object]:
    """The state of one process, behind some batches of an epoch."""
    loader = hr.ItemSampler(BATCHES * 6, batch_size=6, shuffle=True, seed=0).loader()
    loader.set_epoch(epoch)
    iterator = iter(loader)
    for _ in range(batch):
        next(iterator)
    return loader.state_dict()


ALONE = {
    "resumed midway": (lambda loader: loader.load_state_dict(state_of(0, 3)), "batch 3 of epoch 0"),
    "resumed in another epoch": (lambda loader: loader.load_state_dict(state_of(2, 1)), "batch 1 of epoch 2"),
    "another epoch": (lambda loader: loader.set_epoch(4), "batch 0 of epoch 4"),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("moves_first", [True, False])
@pytest.mark.parametrize("kind", ALONE)
def test_all_ranks_are_told_that_one_alone_moved(kind, moves_first, size):
    move, place = ALONE[kind]
    begun, differs = threading.Barrier(size), threading.Barrier(size)

    def load(comm: hr.Comm) -> str:
        with make(comm) as loader:
            if comm.rank == 1:
                move(loader)
            if (comm.rank == 1) is not moves_first:
                begun.wait()
            errors = []
            try:
                batches = iter(loader)
                next(batches)
            except hr.PeerError as error:
                errors.append(str(error))
            if (comm.rank == 1) is moves_first:
                begun.wait()
            differs.wait()
            try:
                list(batches)  # at the latest at its end
            except hr.PeerError as error:
                errors.append(str(error))
            [error] = errors
            return error

    for error in run_ranks(size, load):
        assert f"{place} on rank 1" in error
        assert "batch 0 of epoch 0 on rank" in error
        assert "set_epoch(epoch) or loader.load_state_dict(state) on all ranks" in error


@pytest.mark.parametrize("size", SIZES)
def test_ranks_that_move_together_are_told_nothing(size):
    def load(comm: hr.Comm) -> list[int]:
        with make(comm) as loader:
            counts = [len(list(loader))]
            loader.load_state_dict(state_of(0, 3))
            counts += [len(list(loader)), len(list(loader))]
            loader.set_epoch(7)
            counts += [len(list(loader))]
            loader.load_state_dict(state_of(0, BATCHES))  # the end of an epoch
            counts += [len(list(loader)) for _ in loader.epochs(3)]
            return counts

    assert run_ranks(size, load) == [[5, 2, 5, 5, 5, 5]] * size


@pytest.mark.parametrize("size", SIZES)
def test_a_rank_may_look_at_a_batch_and_begin_anew(size):
    def load(comm: hr.Comm) -> int:
        with make(comm) as loader:
            for epoch in range(3):
                loader.set_epoch(epoch)
                if comm.rank == 1:
                    next(iter(loader))
                    loader.set_epoch(epoch)
                if comm.rank == 0 and epoch == 1:
                    iter(loader)  # and asks for nothing
                assert len(list(loader)) == BATCHES
            return loader.epoch

    assert run_ranks(size, load) == [3] * size


@pytest.mark.parametrize("size", SIZES)
def test_a_rank_may_leave_an_epoch_and_go_on_with_it(size):
    def load(comm: hr.Comm) -> list[list[int]]:
        with make(comm) as loader:
            seeds = []
            for batch in loader:
                seeds += batch.seeds.tolist()
                if comm.rank == 1 and batch.index == 2:
                    break
            if comm.rank == 1:
                loader.load_state_dict(loader.state_dict())
                seeds += [seed for batch in loader for seed in batch.seeds.tolist()]
            later = [seed for batch in loader for seed in batch.seeds.tolist()]
            assert loader.epoch == 2
            return [seeds, later]

    for epoch in zip(*run_ranks(size, load), strict=True):
        assert sorted(seed for seeds in epoch for seed in seeds) == list(range(BATCHES * 6))


@pytest.mark.parametrize("size", SIZES)
def test_loaders_are_compared_each_for_itself(size):
    def load(comm: hr.Comm) -> int:
        with make(comm) as first, make(comm) as second:
            second.set_epoch(3)
            counts = 0
            for _ in range(2):
                counts += len(list(first)) + len(list(second))
                if comm.rank == 0:  # validates more often than others, which wait for nobody
                    list(second)
                    second.set_epoch(second.epoch - 1)
            return counts

    def differ(comm: hr.Comm) -> int:
        with make(comm) as first, make(comm) as second:
            second.set_epoch(comm.rank)
            with suppress(hr.PeerError):
                list(second)
            return len(list(first))

    assert run_ranks(size, differ) == [BATCHES] * size
    assert run_ranks(size, load) == [4 * BATCHES] * size


@pytest.mark.parametrize("size", SIZES)
def test_a_rank_that_never_iterates_keeps_nobody(size):
    def load(comm: hr.Comm) -> int:
        with make(comm) as loader:
            return 0 if comm.rank == 1 else sum(len(list(loader)) for _ in range(3))

    assert sum(run_ranks(size, load, timeout=5.0)) == 3 * BATCHES * (size - 1)


@pytest.mark.parametrize("size", SIZES)
def test_ranks_that_were_told_move_and_go_on(size):
    told = threading.Barrier(size)

    def load(comm: hr.Comm) -> int:
        with make(comm) as loader:
            if comm.rank == 1:
                loader.set_epoch(3)
            batches = iter(loader)
            with suppress(hr.PeerError):
                next(batches)
            told.wait()
            with suppress(hr.PeerError):
                list(batches)
            loader.set_epoch(5)
            return len(list(loader)) + len(list(loader))

    assert run_ranks(size, load) == [2 * BATCHES] * size
