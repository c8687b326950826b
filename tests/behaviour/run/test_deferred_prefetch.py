"""The prefetch that the loader inserts: it starts its thread where that pays, and changes no batch."""

from __future__ import annotations

import threading
import time
from functools import partial
from types import SimpleNamespace

import pytest

import headrace as hr

from plans import PLANS, items

# Of a batch, in seconds: to hand one over from thread to thread takes half a millisecond.
LONG, SHORT, VERY_LONG = 1e-3, 0.25e-3, 10e-3
#: Batches that the training loop makes itself first.
MADE_FIRST = 3


# Stands still unless it is told to go on, so that no other process can hold a batch up. Not in a closure, which would
# belong to the plan.
CLOCK = SimpleNamespace(now=0.0, makers=[])


def add(batch, *, seconds):
    CLOCK.now += seconds
    CLOCK.makers.append(threading.current_thread())
    return batch


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(time, "perf_counter", lambda: CLOCK.now)
    CLOCK.makers.clear()
    return CLOCK


def background_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("headrace-prefetch")]


def loader(making, plan=None):
    """A loader whose batches take so long to make, with the passes' own prefetch."""
    plan = items(batch_size=10) if plan is None else plan
    return plan.transform(partial(add, seconds=making)).loader(machine=hr.Machine(cores=2))


def threads_by_batch(clock, loader, working):
    """Whether a background thread made each batch, with a loop that works so long on each."""
    clock.makers.clear()
    for _ in loader:
        clock.now += working
    return [maker is not threading.current_thread() for maker in clock.makers]


@pytest.mark.parametrize(("making", "working"), [(LONG, LONG), (VERY_LONG, 0.0)])
def test_a_thread_starts_where_there_is_something_to_hide_or_little_to_lose(clock, making, working):
    with loader(making) as slow_batches:
        started = threads_by_batch(clock, slow_batches, working)
    assert len(started) > 2 * MADE_FIRST
    assert started == [number >= MADE_FIRST for number in range(len(started))]


@pytest.mark.parametrize(("making", "working"), [(LONG, 0.0), (LONG, SHORT), (0.0, LONG), (SHORT, LONG)])
def test_no_thread_where_there_is_not(clock, making, working):
    with loader(making) as batches:
        assert not any(threads_by_batch(clock, batches, working))
        assert not background_threads()


def test_a_hiccup_decides_nothing(clock):
    with loader(LONG) as batches:
        for number, _ in enumerate(batches):
            clock.now += LONG if number % MADE_FIRST else 0.0
            assert not background_threads()


def test_later_epochs_begin_ahead(clock):
    with loader(LONG) as batches:
        for working, first in ((0.0, False), (LONG, False), (LONG, True)):
            assert threads_by_batch(clock, batches, working)[0] == first


@pytest.mark.parametrize("leave_at", range(1, 6))
def test_same_batches_and_state_in_either_mode(clock, leave_at):
    expected = [batch.digest() for batch in PLANS["neighbor"]().loader(prefetch=False)]
    got = []
    with loader(LONG, PLANS["neighbor"]()) as first:
        for batch in first:
            got.append(batch.digest())
            clock.now += LONG
            if len(got) == leave_at:
                break
        state = first.state_dict()
    assert leave_at < len(expected)
    with loader(LONG, PLANS["neighbor"]()) as second:
        second.load_state_dict(state)
        got += [batch.digest() for batch in second]
    assert got == expected


def test_after_an_error_the_iteration_is_over():
    def fails(batch):
        if batch.index == 1:
            raise ValueError("at batch 1")
        return batch

    iterator = iter(items(batch_size=2).transform(fails).loader(machine=hr.Machine(cores=2)))
    next(iterator)
    with pytest.raises(ValueError, match="at batch 1"):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)
