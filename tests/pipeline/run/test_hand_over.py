"""Batches that one thread makes on a GPU and another one uses: the second one's stream waits for the first one's."""

from __future__ import annotations

import threading

import pytest

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.pipeline.run import hand_over

from cuda_host.stand_in import StandIn
from plans import graph, items, store

MACHINE = hr.Machine(cores=2, gpus=1)


class Event:
    """Tells in which thread it was recorded, and who waited for it."""

    recorded: list[int]
    waited: list[int]

    def __init__(self, device):
        self.recorded.append(threading.get_ident())

    def wait(self):
        self.waited.append(threading.get_ident())


@pytest.fixture(autouse=True)
def events(monkeypatch):
    Event.recorded, Event.waited = [], []
    monkeypatch.setattr(hand_over, "record", Event)
    with stand_in(StandIn()):
        yield


def num_batches(plan, **switches):
    with plan.loader(machine=MACHINE, **switches) as loader:
        return len(list(loader))


def sampled_there():
    return items().copy_to("cuda").sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"], labels="y")


def fetched():
    return items().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"], labels="y")


@pytest.mark.parametrize(
    ("plan", "switches"),
    [
        (lambda: sampled_there().prefetch(), {"stream_overlap": False}),
        (lambda: sampled_there().prefetch(workers=2), {"stream_overlap": False}),
        (lambda: fetched().to_pyg().copy_to("cuda").prefetch(), {}),
        (lambda: items().sample_neighbor(graph(), [3]).copy_to("cuda").prefetch(), {"stream_overlap": False}),
    ],
    ids=["sampled there", "by two threads", "converted", "copied"],
)
def test_the_training_loop_waits_for_what_workers_launched(plan, switches):
    expected = [threading.get_ident()] * num_batches(plan(), **switches)
    assert Event.waited == expected
    assert len(Event.recorded) == len(expected)
    assert threading.get_ident() not in Event.recorded


@pytest.mark.parametrize(
    "plan",
    [
        lambda: items().sample_neighbor(graph(), [3]).prefetch(),
        lambda: items().sample_neighbor(graph(), [3]).prefetch().copy_to("cuda"),  # the pass hands it over
        lambda: items().sample_neighbor(graph(), [3]).copy_to("cuda").prefetch(workers=0),
    ],
    ids=["in memory of the host", "on a side stream", "no thread"],
)
def test_nobody_waits_where_nothing_is_on_its_way(plan):
    assert num_batches(plan()) > 0
    assert not Event.recorded


def test_batches_are_those_of_the_cpu():
    with sampled_there().prefetch().loader(machine=MACHINE) as loader:
        expected = [batch.digest() for batch in fetched().loader(machine=hr.Machine())]
        assert [batch.digest() for batch in loader] == expected
