"""The machine that passes plan for, as a value: so every rewrite can be tested for machines nobody here owns."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from headrace.ops.memory_limit import free_memory_bytes

if TYPE_CHECKING:
    from headrace.pipeline.partition.partition import Partition


@dataclass(frozen=True)
class Machine:
    """What passes may know of the hardware.

    Parameters
    ----------
    cores
        CPU cores this process may use.
    gpus
        CUDA devices that it can run kernels on: those that torch sees, if CuPy is installed.
    rank, world_size
        Its place among the processes that share every batch.
    memory
        Bytes of CPU memory it may yet take, beside what it holds; 0 where that is not known.
    gpu_memory
        Bytes of memory of each of the devices; empty where that is not known.
    partition
        The rank that owns each node; None where that has not been decided.
    """

    cores: int = 1
    gpus: int = 0
    rank: int = 0
    world_size: int = 1
    memory: int = 0
    gpu_memory: tuple[int, ...] = ()
    partition: Partition | None = field(default=None, repr=False)

    @staticmethod
    def detect(world_size: int = 1) -> Machine:
        """Return the machine at hand. Nothing is initialised on any device.

        Free memory, as the system and the limits of a container say, is divided among the ranks on this machine: those
        that torchrun counts in ``LOCAL_WORLD_SIZE``, or all `world_size`.
        """
        affinity = getattr(os, "sched_getaffinity", None)  # absent on macOS and Windows
        cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
        free, ranks = free_memory_bytes(), os.environ.get("LOCAL_WORLD_SIZE", "")
        here = int(ranks) if ranks.isdecimal() else world_size
        memory = 0 if free is None else max(free // max(here, 1), 1)
        gpus = torch.cuda.device_count() if importlib.util.find_spec("cupy") is not None else 0
        return Machine(cores=cores, gpus=gpus, memory=memory)
