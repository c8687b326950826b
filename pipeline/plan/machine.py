"""The machine that passes plan for, as a value: so every rewrite can be tested for machines nobody here owns."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

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
        CUDA devices it can see.
    rank, world_size
        Its place among the processes that share every batch.
    partition
        The rank that owns each node; None where that has not been decided.
    """

    cores: int = 1
    gpus: int = 0
    rank: int = 0
    world_size: int = 1
    partition: Partition | None = field(default=None, repr=False)

    @staticmethod
    def detect() -> Machine:
        """Return the machine at hand. Nothing is initialised on any device."""
        affinity = getattr(os, "sched_getaffinity", None)  # absent on macOS and Windows
        cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
        return Machine(cores=cores, gpus=torch.cuda.device_count())
