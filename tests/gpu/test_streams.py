"""Streams of a GPU: what one has launched late is there where another one reads it, and memory is not reused before."""

from __future__ import annotations

import pytest
import torch

from headrace import ops
from headrace.ops.features.pinned import Pinned
from headrace.ops.gpu import record, side_stream, use_here

from plans import graph, items, store

pytestmark = pytest.mark.twins

ROUNDS = 8


def loader(gpu, **changes):
    plan = items(**changes).copy_to("cuda").sample_neighbor(graph(), [5, 3])
    return plan.fetch_feature(store(), node=["x"], labels="y").loader(machine=gpu.machine)


def test_rows_of_a_side_stream_are_there_behind_its_event(gpu):
    x = torch.arange(4_000.0).view(-1, 4).to(gpu.device)
    for number in range(ROUNDS):
        ids = torch.randperm(1_000, generator=torch.Generator().manual_seed(number)).to(gpu.device)
        with side_stream(gpu.device, behind_current=True):
            gpu.delay()
            rows = ops.gather_rows(x, ids, trusted=True)
            event = record(gpu.device)
        event.wait()
        use_here([rows])
        assert torch.equal(rows, x[ids])


def test_what_the_current_stream_makes_late_is_read_behind_it(gpu):
    for number in range(ROUNDS):
        gpu.delay()
        x = torch.full((500, 4), float(number), device=gpu.device)
        with side_stream(gpu.device, behind_current=True):
            rows = ops.gather_rows(x, torch.arange(500, device=gpu.device), trusted=True)
            event = record(gpu.device)
        event.wait()
        use_here([rows])
        assert bool((rows == number).all())


@pytest.mark.parametrize("own", [False, True], ids=["default stream", "a stream of the user's"])
def test_a_training_loop_that_is_late_sees_the_batches_of_the_cpu(own, gpu):
    """It drops each batch before its own work on it has run."""
    plan = items().sample_neighbor(graph(), [5, 3]).fetch_feature(store(), node=["x"], labels="y")
    expected = [(batch.x.double().sum().item(), batch.n_id.sum().item()) for batch in plan.loader()]

    def sums():
        found = []
        with loader(gpu) as batches:
            for batch in batches:
                gpu.delay()
                found.append((batch.x.double().sum(), batch.n_id.sum()))
                del batch
        return [(float(rows), int(ids)) for rows, ids in found]

    if own and gpu.backend is None:
        with gpu.another_stream():
            found = sums()
    else:
        found = sums()
    assert [ids for _, ids in found] == [ids for _, ids in expected]
    assert [rows for rows, _ in found] == pytest.approx([rows for rows, _ in expected])


def test_batches_that_are_kept_stay_what_they_were(gpu):
    with loader(gpu) as batches:
        kept = list(batches)
    plan = items().sample_neighbor(graph(), [5, 3]).fetch_feature(store(), node=["x"], labels="y")
    assert [batch.digest() for batch in kept] == [batch.digest() for batch in plan.loader()]


def test_rows_of_the_host_may_be_written_behind_the_event_of_their_read(gpu):
    x = gpu.host(torch.arange(4_000.0).view(-1, 4))
    held, expected = Pinned(x), x.clone()
    ids = torch.arange(999, -1, -1, device=gpu.device)
    gpu.delay()
    rows = ops.gather_rows(x, ids, trusted=True)
    assert torch.equal(rows.cpu(), expected.flip(0))  # waits
    x.fill_(-1.0)
    assert torch.equal(rows.cpu(), expected.flip(0))
    del held
