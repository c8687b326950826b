"""Ranks that part while a model exchanges: whoever goes on is told which rank did not."""

from __future__ import annotations

import re
import threading
import time

import pytest
import torch
from ranks import run_ranks

import headrace as hr

from parting import SOON, all_of, loader_of


def exchange(batch: hr.MiniBatch) -> torch.Tensor:
    rows = torch.ones(len(batch.exchanges[1].owned), 4, requires_grad=True)
    return batch.exchange(1, rows)


@pytest.mark.parametrize("prefetch", [True, False])
@pytest.mark.parametrize("skips", ["the model", "the backward pass", "the sum"])
def test_a_rank_that_continues_is_named(skips, prefetch):
    """Without prefetch it waits in the loader, where the others do not come."""

    def work(comm: hr.Comm) -> None:
        model = torch.nn.Linear(2, 2)
        with loader_of(comm, prefetch=prefetch) as loader:
            for batch in loader:
                left_out = skips if comm.rank == 1 and batch.index == 2 else ""
                if left_out == "the model":
                    continue
                out = exchange(batch)
                if left_out == "the backward pass":
                    continue
                out.sum().backward()
                if left_out != "the sum":
                    hr.sum_gradients(model, comm)

    for error in all_of(2, work):
        assert "batch 3 of epoch 0" in error
        assert "of batch 2 of epoch 0" in error
        assert "rank 0" in error
        assert "rank 1" in error


def test_a_rank_that_skips_the_rest_of_the_epoch_is_named():
    """It leaves no loop, and comes to no exchange of the model."""

    def work(comm: hr.Comm) -> None:
        with loader_of(comm, prefetch=False) as loader:
            for epoch in range(2):
                for batch in loader:
                    if comm.rank == 1 and epoch == 0 and batch.index == 14:
                        continue
                    exchange(batch)

    for error in all_of(2, work):
        # Whether it has asked for one batch more, has learnt that there is none, or has begun the next loop.
        assert re.search("rank 1 (went on to|reached the end of) .*, rank 0 waits for it at exchange 0", error)
        assert "of batch 14 of epoch 0" in error


@pytest.mark.slow
def test_a_thread_of_the_user_may_ask_ahead_of_the_model():
    """On each rank as far as it likes: rank 1 has asked for all while rank 0 waits for it in the model."""

    def work(comm: hr.Comm) -> float:
        batches: list[hr.MiniBatch] = []
        with loader_of(comm, prefetch=False) as loader:
            thread = threading.Thread(target=lambda: batches.extend(loader))
            thread.start()
            if comm.rank == 1:
                thread.join()
                time.sleep(1.0)
            while not batches:
                time.sleep(0.01)
            total = exchange(batches[0]).sum().item()
            thread.join()
            return total

    assert all(total > 0 for total in run_ranks(2, work))


def test_a_rank_that_ends_its_loop_before_the_model_is_named():
    """The others wait in the model, for the same batch; it goes on with the next epoch."""

    def work(comm: hr.Comm) -> None:
        with loader_of(comm) as loader:
            for batch in loader:
                if comm.rank == 1 and batch.index == 2:
                    break
                exchange(batch)
            for batch in loader:
                exchange(batch)

    for error in all_of(2, work):  # whichever of the two sees it first
        assert "rank 1" in error
        assert "batch 2" in error or "rank 1 at exchange 0 of batch 0 of epoch 1" in error


@pytest.mark.slow
def test_the_first_batch_alone_may_be_used_behind_its_loop():
    def work(comm: hr.Comm) -> float:
        loader = loader_of(comm)
        batch = next(iter(loader))
        time.sleep(1.0 * comm.rank)
        return exchange(batch).sum().item()

    assert all(total > 0 for total in run_ranks(2, work))


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_rank_that_leaves_without_the_last_batch_is_named(goes_on):
    """At once if it goes on to another loop, else when the time is over."""
    over = threading.Event()

    def work(comm: hr.Comm) -> None:
        loader = loader_of(comm)
        for batch in loader:
            if batch.index == 3:
                break
        if comm.rank == 1:
            if goes_on:
                iter(loader)
            assert over.wait(SOON)
            return
        try:
            exchange(batch)
        finally:
            over.set()

    first, _ = all_of(2, work, timeout=60.0 if goes_on else 1.0)
    assert "rank 1" in first
    assert "left epoch 0 after batch 3" in first
    assert ("did not come to an exchange in the 1 seconds" in first) is not goes_on


@pytest.mark.slow
def test_a_rank_that_does_not_come_is_named_when_the_time_is_over():
    over = threading.Event()

    def work(comm: hr.Comm) -> None:
        with loader_of(comm) as loader:
            for batch in loader:
                if comm.rank == 1 and batch.index == 2:
                    assert over.wait(SOON)
                try:
                    exchange(batch)
                except hr.PeerError:
                    over.set()
                    raise

    first, second = all_of(2, work, timeout=1.0)
    assert "rank 1 did not come to an exchange in the 1 seconds that rank 0 waited" in first
    assert "rank 1 did not come" in second
