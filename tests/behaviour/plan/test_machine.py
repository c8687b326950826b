"""The machine at hand: cores are those that this process may use, not those that there are."""

from __future__ import annotations

import importlib.util
import os
import time
from dataclasses import replace

import pytest
import torch
from explained import names

import headrace as hr

from copies import TORCH, run_program
from plans import graph, store

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
    assert hr.Machine.detect().cores == len(cores)


def test_memory_is_also_a_text():
    machine = hr.Machine(gpus=2, memory="64GB", gpu_memory="80GiB")
    assert (machine.memory, machine.gpu_memory) == (64 * 10**9, (80 << 30,) * 2)
    assert hr.Machine(gpus=2, gpu_memory=("80GB", 7)).gpu_memory == (80 * 10**9, 7)
    assert replace(machine, memory="1 MB").memory == 10**6
    assert hash(machine) == hash(hr.Machine(gpus=2, memory=64 * 10**9, gpu_memory=(80 << 30,) * 2))
    for fields, message in (
        ({"memory": "80"}, 'Machine: memory: expected at least 1,000,000 bytes, got .80.*; give the unit, as "80GB"'),
        ({"gpus": 1, "gpu_memory": ("0.5",)}, "Machine: gpu_memory: expected at least"),
        ({"memory": "much"}, "Machine: memory: expected memory to be bytes or a text"),
        ({"gpus": None, "gpu_memory": "80GB"}, "expected gpus to be an integer"),
        ({"gpu_memory": [1]}, "expected gpu_memory to be a tuple of bytes, got list"),
    ):
        with pytest.raises(hr.InputError, match=message):
            hr.Machine(**fields)


def test_without_affinity_all_cores_count(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert hr.Machine.detect().cores == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert hr.Machine.detect().cores == 1


def test_a_share_leaves_half_of_the_memory():
    """Of caches one after the other, each with a quarter of what it may have."""
    free, given = 1 << 20, 0
    for _ in range(50):
        given += hr.Machine(memory=free - given, promised=given).share(4)
    assert given <= free // 2
    assert given > 0.49 * free


def test_memory_of_one_gpu():
    machine = hr.Machine(gpus=2, gpu_memory=(10, 20, 30))
    assert [machine.memory_of_gpu(index) for index in (None, 0, 1, 2, 3)] == [10, 10, 20, 0, 0]
    assert replace(machine, current_gpu=1).memory_of_gpu(None) == 20
    given = replace(machine, gpu_promised=(4, 8))
    assert [given.share_of_gpu(index, 2) for index in (None, 0, 1, 2)] == [3, 3, 6, 0]


def test_without_cupy_gpus_run_no_kernels(monkeypatch):
    """Batches are made on the CPU then, and copied: plans hold no stage that would need a kernel."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = hr.Machine.detect()
    assert (found.gpus, found.gpu_memory) == (0, ())
    plan = hr.ItemSampler(4).copy_to("cuda").sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"])
    stages = names(plan, found)
    assert stages.index("sample_fused") < stages.index("copy_to")
    assert not {"fetch_to", "on_stream"} & set(stages)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity masks")
def test_a_process_that_is_held_on_one_core_has_one():
    core = min(os.sched_getaffinity(0))
    program = DETECT.format(core={core}, count=1)
    result = run_program(program, imports=TORCH)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gpus": 10**9}, "expected gpus to be an integer from 0 to 128, got 1000000000"),
        ({"gpus": 10**9, "gpu_memory": "80GB"}, "expected gpus to be an integer from 0 to 128"),
        ({"gpus": 1, "gpu_memory": (1,) * 10**6}, "expected the length of gpu_memory to be an integer from 0 to 128"),
        ({"gpus": 1, "gpu_memory": (1 << 64,)}, "expected each of gpu_memory to be an integer from 0 to"),
        ({"gpus": 1, "gpu_promised": (-1,)}, "expected each of gpu_promised to be an integer of at least 0, got -1"),
        ({"gpus": 2, "current_gpu": 2}, "expected current_gpu below gpus = 2, got 2"),
        ({"gpus": 2, "bus_threads": 1 << 40}, "expected bus_threads to be an integer from 0"),
        ({"cores": 10**9}, "expected cores to be an integer from 1 to 4096"),
        ({"cores": 10**5000}, "expected cores to be an integer from 1 to 4096, got one of more than 300 digits"),
        ({"world_size": 10**9}, "expected world_size to be an integer from 1"),
        ({"world_size": 10**9, "rank": 10**9 - 1}, "expected world_size to be an integer from 1"),
        ({"memory": 1 << 63}, "expected memory to be an integer from 0"),
        ({"memory": "9" * 400 + "GB"}, "memory: expected memory to be bytes or a text"),
        ({"memory": "9" * 90 + "GB"}, r"memory: expected at most 9,223,372,036,854,775,807 bytes, got '9{70,}\.\.\."),
        ({"promised": 1 << 63}, "expected promised to be an integer from 0"),
        ({"gpus": 2, "gpu_memory": (1,)}, "expected gpu_memory to have the bytes of each of 2 GPUs, got 1"),
        ({"gpus": 3, "gpu_promised": (1, 1)}, "expected gpu_promised to have the bytes of each of 3 GPUs, got 2"),
    ],
)
def test_no_machine_is_larger_than_any(fields, message):
    with pytest.raises(hr.InputError, match=f"Machine: {message}"):
        hr.Machine(**fields)


def test_the_largest_machine_is_planned_for_at_once():
    largest = hr.Machine(
        cores=4096, gpus=128, memory=(1 << 63) - 1, gpu_memory="80GB", world_size=1 << 16, rank=(1 << 16) - 1
    )
    plan = hr.ItemSampler(90, batch_size=10).sample_neighbor(graph(), [2]).fetch_feature(store(), node=["x"])
    begin = time.monotonic()
    for cooperative in (False, True):
        text = plan.copy_to("cuda").explain(machine=largest, cooperative=cooperative)
        assert "gpu_memory=(128 x 74.51 GiB)" in " ".join(text.split())
    assert time.monotonic() - begin < 10  # a hundred times what it takes
