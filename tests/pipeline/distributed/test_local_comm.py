"""Ranks in the threads of one process."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import torch
from ranks import run_ranks

import headrace as hr

from parting import loader_of


def exchange(batch: hr.MiniBatch) -> torch.Tensor:
    rows = torch.ones(len(batch.exchanges[1].owned), 4, requires_grad=True)
    return batch.exchange(1, rows)


@pytest.mark.slow
def test_ranks_may_use_the_last_batch_behind_their_loop_as_late_as_they_come_to_it(monkeypatch):
    """As where one of them saves a checkpoint first. What is waited for is the timeout, by no clock of its own."""
    clock, ahead = time.monotonic, [0.0]

    def work(comm: hr.Comm) -> float:
        loader = loader_of(comm)
        for batch in loader:
            if batch.index == 3:
                break
        if comm.rank == 0:
            time.sleep(0.5)  # rank 1 waits in the model
            ahead[0] = 50.0
            time.sleep(0.5)
        return exchange(batch).sum().item()

    monkeypatch.setattr(
        "headrace.pipeline.distributed.local_comm.time", SimpleNamespace(monotonic=lambda: clock() + ahead[0])
    )
    assert all(total > 0 for total in run_ranks(2, work))
