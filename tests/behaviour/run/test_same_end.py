"""Ranks with shares of their own take the same batches of each epoch, or are told which of them does not."""

from __future__ import annotations

import threading

import pytest
import torch
from ranks import run_ranks

import headrace as hr

SIZES = [2, 3]
BATCHES = 5
TOLD = "expected all ranks to take the same batches of an epoch"


def make(comm: hr.Comm) -> hr.Loader:
    return hr.ItemSampler(BATCHES * 6, batch_size=6, shuffle=True, seed=0).loader(comm=comm)


class Ids:
    """A torchdata node of a user, which yields some batches."""

    def __init__(self, num_batches: int) -> None:
        self._num_batches = num_batches
        self._next = 0

    def reset(self, state: dict[str, int] | None = None) -> None:
        self._next = 0 if state is None else state["next"]

    def __next__(self) -> torch.Tensor:
        if self._next == self._num_batches:
            raise StopIteration
        self._next += 1
        return torch.arange(3)

    def state_dict(self) -> dict[str, int]:
        return {"next": self._next}


class OwnSource(hr.ext.SourceStage):
    """A source of a user, whose number of batches is that of its class: ranks do not compare it."""

    name, seed, shares_by_rank = "own_source", 0, True
    num_batches = 0

    @staticmethod
    def of(num_batches: int) -> hr.ext.SourceStage:
        return type("OwnSource", (OwnSource,), {"num_batches": num_batches})()

    def source(self, settings: object) -> hr.ext.BatchSource:
        return OwnBatches(self.num_batches)


class OwnBatches(hr.ext.BatchSource):
    def __init__(self, num_batches: int) -> None:
        self.num_batches = num_batches

    def seek(self, epoch: int, state: dict[str, int] | None) -> None:
        self._place = epoch, 0 if state is None else state["batch"]

    def draw(self) -> hr.MiniBatch:
        epoch, index = self._place
        if index == self.num_batches:
            raise StopIteration
        self._place = epoch, index + 1
        return hr.MiniBatch.of_seeds(torch.arange(3), epoch=epoch, index=index)


SOURCES = {"node": lambda number: hr.ext.NodeSource(Ids(number), seed=0), "own source": OwnSource.of}


def train(loader: hr.Loader, model: threading.Barrier, num_epochs: int = 2) -> int:
    """Train as with DistributedDataParallel, where each step waits for that of all other ranks."""
    for _ in range(num_epochs):
        for _ in loader:
            model.wait()
    return loader.epoch


def told(num_ranks: int, work) -> list[str]:
    """Run ranks whose models fail as soon as one of them has, as processes do; return what they were told."""
    model = threading.Barrier(num_ranks)
    errors = []

    def load(comm: hr.Comm) -> None:
        try:
            work(comm, model)
            model.wait(timeout=1.0)  # another collective behind the training, as validation has
        except hr.PeerError as error:
            errors.append(str(error))
            model.abort()
        except threading.BrokenBarrierError:
            pass

    run_ranks(num_ranks, load, timeout=10.0)
    return errors


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("num_epochs", [1, 2])
def test_ranks_with_other_numbers_of_batches_are_told_before_their_models_wait(source, num_epochs, size):
    def load(comm: hr.Comm, model: threading.Barrier) -> None:
        with SOURCES[source](4 + (comm.rank == 1)).loader(comm=comm) as loader:
            train(loader, model, num_epochs)

    for error in told(size, load) or ["nobody was told"]:
        assert TOLD in error
        assert "4 batches of epoch 0 on rank" in error
        assert "5 batches of epoch 0 on rank 1" in error


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("source", SOURCES)
def test_ranks_with_as_many_batches_are_told_nothing(source, size):
    def load(comm: hr.Comm) -> int:
        with SOURCES[source](5).loader(comm=comm) as loader:
            counts = [len(list(loader))]
            for _ in loader:
                break
            state = loader.state_dict()
            counts.append(len(list(loader)))
            loader.load_state_dict(state)
            if comm.rank == 1:
                next(iter(loader))
                loader.load_state_dict(state)
            return [*counts, len(list(loader)), len(list(loader))]

    assert run_ranks(size, load) == [[5, 5, 4, 5]] * size


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("num_epochs", [1, 3])
def test_a_rank_that_takes_a_batch_alone_is_told(num_epochs, size):
    def load(comm: hr.Comm, model: threading.Barrier) -> None:
        with make(comm) as loader:
            if comm.rank == 1:
                next(iter(loader))  # and trains an epoch ahead of the others
            train(loader, model, num_epochs)

    errors = told(size, load)
    assert errors
    for error in errors:
        assert f"{TOLD}, got " in error
        assert "1 batch of epoch 0 on rank 1" in error
        assert "call loader.set_epoch(epoch) behind batches that a rank takes for itself" in error


@pytest.mark.parametrize("size", SIZES)
def test_ranks_that_leave_at_other_batches_are_told(size):
    def load(comm: hr.Comm) -> str:
        with make(comm) as loader:
            try:
                for _, batch in zip(range(2 if comm.rank == 1 else 3), loader, strict=False):
                    assert batch.epoch == 0
                list(loader)
                list(loader)
            except hr.PeerError as error:
                return str(error)
        return ""

    errors = [error for error in run_ranks(size, load) if error]  # one that is through with its epochs looks no more
    assert errors
    for error in errors:
        assert "batches of epoch 0 on rank" in error


@pytest.mark.parametrize("size", SIZES)
def test_ranks_that_leave_at_the_same_batch_are_told_nothing(size):
    def load(comm: hr.Comm) -> int:
        with make(comm) as loader:
            for _ in zip(range(2), loader, strict=False):
                pass
            for _ in zip(range(BATCHES), loader, strict=False):  # all of them, but not asked whether there are more
                pass
            return len(list(loader))

    assert run_ranks(size, load) == [BATCHES] * size
