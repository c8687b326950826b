"""The machine at hand, of systems, launchers and drivers that say this or that."""

from __future__ import annotations

import pytest
import torch

from headrace.ops.gpu import current_gpu, resolved
from headrace.ops.memory_promises import Promised
from headrace.pipeline.distributed import job
from headrace.pipeline.distributed.job import ranks_here
from headrace.pipeline.plan import machine
from headrace.pipeline.plan.machine import Machine


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
