"""Tuning chooses what is fastest, prints it as code, and changes no batch."""

from __future__ import annotations

import os
import time

import pytest

import headrace as hr

from plans import PLANS, items

MACHINE = hr.Machine(cores=4)


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    """Let clocks of runs go ten times as fast."""
    clock = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: 10 * clock())
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(4), raising=False)


def slow(batch: hr.MiniBatch) -> hr.MiniBatch:
    time.sleep(0.01)  # which threads do side by side, whatever the machine has
    return batch


@pytest.mark.slow
def test_the_fastest_is_chosen_and_printed(capsys):
    plan = hr.ItemSampler(4_000, batch_size=20, shuffle=True, seed=3).transform(slow)
    loader = plan.loader(machine=MACHINE, tune=True)
    said = capsys.readouterr().out
    assert "batches/s with plan.prefetch(workers=4, depth=5).loader(num_threads=" in said
    assert "prefetch(4, 5)" in loader.explain().replace("depth=", "")
    assert next(iter(loader)).digest() == next(iter(plan.loader(machine=MACHINE))).digest()


@pytest.mark.slow
def test_batches_stay_the_same_from_the_first_on(capsys):
    plan = PLANS["neighbor"]()
    expected = [batch.digest() for batch in plan.loader(num_threads=1)]
    assert [batch.digest() for batch in plan.loader(machine=MACHINE, tune=True)] == expected
    assert capsys.readouterr().out.startswith("tuned in ")


def test_given_threads_and_workers_stay(capsys):
    plan = items().prefetch(workers=2, depth=7)
    loader = plan.loader(machine=MACHINE, tune=True)
    assert "prefetch" not in capsys.readouterr().out.partition("plan")[2].partition("(slowest")[0]
    assert loader.explain().count("prefetch(2, 7)") + loader.explain().count("prefetch(2, depth=7)") >= 1
    items().loader(machine=MACHINE, num_threads=3, tune=True)
    assert ".loader(num_threads=3, machine=machine)" in capsys.readouterr().out


def test_the_code_has_all_arguments(capsys):
    given = {"machine": MACHINE, "rank": 0, "world_size": 1, "progress": True, "fuse_sampling": False}
    items().loader(**given, num_threads=1, tune=True)
    code = "loader(num_threads=1, machine=machine, rank=0, world_size=1, progress=True, fuse_sampling=False) (slowest"
    assert code in capsys.readouterr().out


def test_without_prefetch_only_threads_are_chosen(capsys):
    loader = items().loader(machine=MACHINE, prefetch=False, tune=True)
    said = capsys.readouterr().out
    assert "with plan.loader(num_threads=" in said
    assert "machine=machine, prefetch=False) (slowest" in said
    assert "prefetch(" not in loader.explain().partition("plan as written")[0]


def test_refusals():
    with pytest.raises(hr.PlanError, match=r"expected tune=True in one process, got one of 2 ranks; tune a loader"):
        items().loader(rank=0, world_size=2, tune=True)
    with pytest.raises(hr.PlanError, match=r"at most the 4 cores that are here for tune=True, .* machine= of 64"):
        items().loader(machine=hr.Machine(cores=64), tune=True)
    with pytest.raises(hr.PlanError, match="expected tune to be True or False, got int"):
        items().loader(tune=3)
    with pytest.raises(hr.PlanError, match="source that can be run twice for tune=True, got node_source"):
        hr.ext.NodeSource(Node()).loader(tune=True)


class Node:
    """A node of torchdata."""

    def reset(self, state=None):
        del state

    def __next__(self):
        raise StopIteration

    def state_dict(self):
        return {}
