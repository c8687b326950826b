"""The machine that passes plan for, as a value: so every rewrite can be tested for machines nobody here owns."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from headrace.ops.gpu import current_gpu
from headrace.ops.gpu_memory import free_gpu_memory
from headrace.ops.memory_limit import free_memory_bytes

if TYPE_CHECKING:
    from headrace.pipeline.partition.edge_partition import EdgePartition
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
        Bytes that are free on each of the devices; empty where that is not known. Ranks need not agree about it: passes
        let sizes depend on it, and no stage in which ranks wait for each other.
    current_gpu
        The number of the device that ``"cuda"`` without a number is.
    partition
        The rank that owns each node, or each edge; None where that has not been decided.
    """

    cores: int = 1
    gpus: int = 0
    rank: int = 0
    world_size: int = 1
    memory: int = 0
    gpu_memory: tuple[int, ...] = ()
    current_gpu: int = field(default=0, repr=False)
    partition: Partition | EdgePartition | None = field(default=None, repr=False)

    def memory_of_gpu(self, index: int | None) -> int:
        """Return the bytes of memory of a GPU, by default the current one; 0 where that is not known."""
        number = self.current_gpu if index is None else index
        return self.gpu_memory[number] if number < min(self.gpus, len(self.gpu_memory)) else 0

    @staticmethod
    def detect(world_size: int = 1) -> Machine:
        """Return the machine at hand. CUDA is not initialised by it, so that processes which are forked can use it.

        Free memory, as the system and the limits of a container say, is divided among the ranks on this machine: those
        that torchrun counts in ``LOCAL_WORLD_SIZE``, or all `world_size`.
        """
        affinity = getattr(os, "sched_getaffinity", None)  # absent on macOS and Windows
        cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
        free, ranks = free_memory_bytes(), os.environ.get("LOCAL_WORLD_SIZE", "")
        here = int(ranks) if ranks.isdecimal() else world_size
        memory = 0 if free is None else max(free // max(here, 1), 1)
        gpus = torch.cuda.device_count() if importlib.util.find_spec("cupy") is not None else 0
        # Before CUDA is initialised the first one is current, unless somebody changes that yet.
        current = current_gpu() if gpus and torch.cuda.is_initialized() else 0  # type: ignore[no-untyped-call]
        return Machine(cores=cores, gpus=gpus, memory=memory, gpu_memory=_gpu_memory(gpus), current_gpu=current)


def _gpu_memory(gpus: int) -> tuple[int, ...]:
    """Return what is free on each GPU, by the driver; what other processes and torch's allocator hold is not.

    Ranks that share a GPU are not known here, so it is not divided: they pass a machine of their own.
    """
    free = free_gpu_memory() if gpus else ()
    if len(free) == gpus:
        return free
    # A driver without NVML. Of several GPUs CUDA says it only at the cost of a context on each.
    is_up = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return (torch.cuda.mem_get_info()[0],) if gpus == 1 and is_up else ()
