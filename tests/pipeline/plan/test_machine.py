"""The machine at hand: cores are those that this process may use, not those that there are."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

import headrace as hr
from headrace.ops.gpu import current_gpu, resolved
from headrace.ops.memory_promises import Promised
from headrace.pipeline.distributed import job
from headrace.pipeline.distributed.job import ranks_here
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan import machine
from headrace.pipeline.plan.machine import Machine

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
    assert Machine.detect().cores == len(cores)


def test_memory_is_also_a_text():
    machine = Machine(gpus=2, memory="64GB", gpu_memory="80GiB")
    assert (machine.memory, machine.gpu_memory) == (64 * 10**9, (80 << 30,) * 2)
    assert Machine(gpus=2, gpu_memory=("80GB", 7)).gpu_memory == (80 * 10**9, 7)
    assert replace(machine, memory="1 MB").memory == 10**6
    assert hash(machine) == hash(Machine(gpus=2, memory=64 * 10**9, gpu_memory=(80 << 30,) * 2))
    for fields, message in (
        ({"memory": "80"}, 'Machine: memory: expected at least 1,000,000 bytes, got .80.*; give the unit, as "80GB"'),
        ({"gpus": 1, "gpu_memory": ("0.5",)}, "Machine: gpu_memory: expected at least"),
        ({"memory": "much"}, "Machine: memory: expected memory to be bytes or a text"),
        ({"gpus": None, "gpu_memory": "80GB"}, "expected gpus to be an integer"),
        ({"gpu_memory": [1]}, "expected gpu_memory to be a tuple of bytes, got list"),
    ):
        with pytest.raises(hr.InputError, match=message):
            Machine(**fields)


def test_without_affinity_all_cores_count(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert Machine.detect().cores == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert Machine.detect().cores == 1


def test_memory_is_divided_among_the_ranks_of_the_machine(monkeypatch):
    monkeypatch.setattr(machine, "own_room", lambda: None)
    monkeypatch.setattr(machine, "promised", lambda place=-1: Promised(0, 0, 0))
    monkeypatch.setattr(machine, "shared_room", lambda: 900)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert Machine.detect().memory == 900
    assert Machine.detect(world_size=3).memory == 300
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert Machine.detect(world_size=8).memory == 450
    monkeypatch.setattr(machine, "shared_room", lambda: 0)
    assert Machine.detect().memory == 1  # none is left; 0 would say that it is not known
    monkeypatch.setattr(machine, "shared_room", lambda: None)
    assert Machine.detect().memory == 0


def test_launchers_that_count_the_ranks_of_a_machine(monkeypatch):
    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"):
        monkeypatch.delenv(name, raising=False)
    assert ranks_here() == 1
    assert ranks_here(6) == 6
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "3")
    assert ranks_here(6) == 3
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert ranks_here(6) == 2


def test_without_a_launcher_the_ranks_of_the_process_group_share_the_memory(monkeypatch):
    """As with `mp.spawn`, also for loaders of one rank: each rank makes its own to validate."""
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(job, "is_distributed", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    assert ranks_here() == ranks_here(1) == 4
    monkeypatch.setattr(machine, "own_room", lambda: None)
    monkeypatch.setattr(machine, "shared_room", lambda: 4 << 40)
    found = Machine.detect()
    assert (found.rank, found.world_size) == (1, 4)
    assert found.memory <= 1 << 40


def test_limits_of_addresses_are_each_ranks_own(monkeypatch):
    monkeypatch.setattr(machine, "shared_room", lambda: 900)
    monkeypatch.setattr(machine, "own_room", lambda: 400)
    monkeypatch.setattr(machine, "promised", lambda place=-1: Promised(60, 50, 10))
    assert Machine.detect(world_size=2).memory == 390
    assert Machine.detect(world_size=3).memory == 250
    assert Machine.detect().promised == 60


def test_a_share_leaves_half_of_the_memory():
    """Of caches one after the other, each with a quarter of what it may have."""
    free, given = 1 << 20, 0
    for _ in range(50):
        given += Machine(memory=free - given, promised=given).share(4)
    assert given <= free // 2
    assert given > 0.49 * free


def test_memory_of_one_gpu():
    machine = Machine(gpus=2, gpu_memory=(10, 20, 30))
    assert [machine.memory_of_gpu(index) for index in (None, 0, 1, 2, 3)] == [10, 10, 20, 0, 0]
    assert replace(machine, current_gpu=1).memory_of_gpu(None) == 20
    given = replace(machine, gpu_promised=(4, 8))
    assert [given.share_of_gpu(index, 2) for index in (None, 0, 1, 2)] == [3, 3, 6, 0]


@pytest.mark.parametrize(
    ("gpus", "current", "local_rank", "expected"),
    [
        (2, None, None, 0),
        (2, 1, None, 1),
        (4, None, "3", 3),
        (4, 0, "3", 3),
        (4, 2, "3", 2),  # the process chose it
        (2, None, "3", 0),  # ranks share GPUs, or each sees its own
        (4, None, "first", 0),
        (0, None, "1", 0),
    ],
)
def test_the_gpu_of_a_process_is_the_current_one_or_that_of_its_rank(monkeypatch, gpus, current, local_rank, expected):
    """CUDA is not initialised for it."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: current is not None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current)
    monkeypatch.setattr(machine, "free_gpu_memory", lambda: (70,) * gpus)
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: name)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if local_rank is not None:
        monkeypatch.setenv("LOCAL_RANK", local_rank)
    assert Machine.detect().current_gpu == current_gpu() == expected
    assert resolved("cuda") == torch.device("cuda", expected)
    assert resolved("cuda:1") == torch.device("cuda", 1)


@pytest.mark.parametrize(
    ("gpus", "by_driver", "initialised", "expected"),
    [
        (2, (70, 60), False, (70, 60)),
        (2, (70, 60), True, (70, 60)),
        (1, (), False, ()),
        (1, (), True, (50,)),
        (2, (70,), True, ()),  # they do not agree about what there is
        (0, (70,), True, ()),
    ],
)
def test_free_memory_of_gpus_is_asked_of_the_driver(monkeypatch, gpus, by_driver, initialised, expected):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: initialised)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (50, 80))
    monkeypatch.setattr(machine, "free_gpu_memory", lambda: by_driver)
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: name)
    found = Machine.detect()
    assert (found.gpus, found.gpu_memory) == (gpus, expected)


def test_without_cupy_gpus_run_no_kernels(monkeypatch):
    """Batches are made on the CPU then, and copied: plans hold no stage that would need a kernel."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(machine, "free_gpu_memory", lambda: (70, 60))
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: None)
    found = Machine.detect()
    assert (found.gpus, found.gpu_memory) == (0, ())
    plan = hr.ItemSampler(4).copy_to("cuda").sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"])
    stages = [stage.name for stage in rewrite(plan, found).final.stages]
    assert stages.index("sample_fused") < stages.index("copy_to")
    assert not {"fetch_to", "on_stream"} & set(stages)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity masks")
def test_a_process_that_is_held_on_one_core_has_one():
    core = min(os.sched_getaffinity(0))
    program = DETECT.format(core={core}, count=1)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
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
    ],
)
def test_no_machine_is_larger_than_any(fields, message):
    with pytest.raises(hr.InputError, match=f"Machine: {message}"):
        Machine(**fields)


def test_the_largest_machine_is_planned_for_at_once():
    largest = Machine(
        cores=4096, gpus=128, memory=(1 << 63) - 1, gpu_memory="80GB", world_size=1 << 16, rank=(1 << 16) - 1
    )
    plan = hr.ItemSampler(90, batch_size=10).sample_neighbor(graph(), [2]).fetch_feature(store(), node=["x"])
    begin = time.monotonic()
    for cooperative in (False, True):
        text = plan.copy_to("cuda").explain(machine=largest, cooperative=cooperative)
        assert "gpu_memory=(128 x 74.51 GiB)" in " ".join(text.split())
    assert time.monotonic() - begin < 10  # a hundred times what it takes
