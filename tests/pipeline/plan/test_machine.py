"""The machine at hand: cores are those that this process may use, not those that there are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headrace.pipeline.plan import machine
from headrace.pipeline.plan.machine import Machine

DETECT = """
import os
os.sched_setaffinity(0, {core})
import headrace as hr
assert hr.Machine.detect().cores == {count}, hr.Machine.detect()
assert hr.ItemSampler(4).loader().explain()
"""


@pytest.mark.parametrize("cores", [{0}, {1, 3, 5}])
def test_cores_are_those_of_the_affinity_mask(monkeypatch, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores, raising=False)
    assert Machine.detect().cores == len(cores)


def test_without_affinity_all_cores_count(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert Machine.detect().cores == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert Machine.detect().cores == 1


def test_memory_is_divided_among_the_ranks_of_the_machine(monkeypatch):
    monkeypatch.setattr(machine, "free_memory_bytes", lambda: 900)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert Machine.detect().memory == 900
    assert Machine.detect(world_size=3).memory == 300
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert Machine.detect(world_size=8).memory == 450
    monkeypatch.setattr(machine, "free_memory_bytes", lambda: 0)
    assert Machine.detect().memory == 1  # none is left; 0 would say that it is not known
    monkeypatch.setattr(machine, "free_memory_bytes", lambda: None)
    assert Machine.detect().memory == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity masks")
def test_a_process_that_is_held_on_one_core_has_one():
    core = min(os.sched_getaffinity(0))
    program = DETECT.format(core={core}, count=1)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
