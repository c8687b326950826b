"""How long tuning measures, and which of its choices it takes."""

from __future__ import annotations

import os

import pytest

import headrace as hr
from headrace.pipeline.run.tune import Choice, _rate
from headrace.pipeline.stages.steps import Prefetch

from plans import items


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(4), raising=False)


def test_short_epochs_are_begun_again(monkeypatch):
    """A run of a plan of one batch takes the seconds that it is to take, or has enough batches."""
    monkeypatch.setattr("headrace.pipeline.run.tune.BATCHES_OF_RUN", 7)
    monkeypatch.setattr("headrace.pipeline.run.tune.SECONDS_OF_RUN", 60.0)
    made = []

    def note(batch: hr.MiniBatch) -> hr.MiniBatch:
        made.append(batch.epoch)
        return batch

    with hr.ItemSampler(10, batch_size=10).transform(note).loader(prefetch=False) as loader:
        assert _rate(loader) > 0
    assert made == list(range(8))


def test_of_two_that_are_as_fast_the_smaller_is_chosen(monkeypatch, capsys):
    monkeypatch.setattr("headrace.pipeline.run.tune._rate", lambda loader: 100.0 + len(loader.explain()) / 1e6)
    loader = items().loader(machine=hr.Machine(cores=4), tune=True)
    assert "plan.prefetch(workers=1, depth=2).loader(num_threads=1, machine=machine)" in capsys.readouterr().out
    assert loader is not None


def test_a_choice_is_code():
    plan = items()
    choice = Choice(2, 3)
    assert choice.code({}) == "plan.prefetch(workers=3, depth=4).loader(num_threads=2)"
    assert choice.applied(plan).stages[-1] == Prefetch(3, 4)
    assert Choice(2, None).code({}) == "plan.loader(num_threads=2)"
    assert choice.applied(plan).loader(num_threads=choice.num_threads) is not None
