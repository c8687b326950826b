"""The job of this process: what is asked of torch.distributed, in the one module that imports it.

It loads nothing that only several ranks need, so that a process can ask here whether it is one of several.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from headrace.ops.errors import PlanError
from headrace.ops.gpu import current_gpu, name_of_gpu
from headrace.pipeline.data.arrays import whole_number


def is_distributed() -> bool:
    """Return whether torch.distributed is initialised."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def rank_of_process(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return (rank, world size): those given, else torch.distributed's when it is initialised, else (0, 1).

    Raises
    ------
    PlanError
        If only one of the two is given, or the rank is not below the world size.
    """
    if (rank is None) != (world_size is None):
        raise PlanError(
            f"expected rank and world_size together, got rank={rank}, world_size={world_size}; pass both or neither"
        )
    if rank is None or world_size is None:
        if is_distributed():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return 0, 1
    world_size = whole_number(world_size, "world_size", 1, PlanError)
    return whole_number(rank, "rank", 0, PlanError, world_size - 1), world_size


def all_ranks() -> Any:
    """Return the process group of the job; None if it was ended."""
    return torch.distributed.group.WORLD


def store_of_job() -> Any:
    """Return the store by which the ranks met; no public function returns it."""
    return torch.distributed.distributed_c10d._get_default_store()  # noqa: SLF001


def device_of_job() -> torch.device:
    """Return where the job's collectives take what is in CPU memory: there, or by NCCL alone on a GPU."""
    on_gpu = torch.distributed.get_backend() == "nccl"
    return torch.device("cuda", current_gpu()) if on_gpu else torch.device("cpu")


def reaches_gpus(group: Any) -> bool:
    """Return whether collectives of a process group take tensors on GPUs as they are, by NCCL.

    Gloo takes some, which it copies to CPU memory.
    """
    try:
        name: str = group._get_backend(torch.device("cuda")).name()  # noqa: SLF001 - no public function knows both
    except RuntimeError:
        return False
    return name.lower() == "nccl"


def gpu_of_nccl() -> str:
    """Return the name of the GPU by which NCCL knows this rank; "" where the job has another backend."""
    return name_of_gpu(torch.device("cuda", current_gpu())) if reaches_gpus(all_ranks()) else ""


def timeout_of_job() -> float:
    """Return the seconds that collectives of the job may take; no public function returns it."""
    options = getattr(all_ranks()._get_backend(device_of_job()), "options", None)  # noqa: SLF001
    timeout: timedelta = getattr(options, "_timeout", torch.distributed.distributed_c10d.default_pg_timeout)
    return timeout.total_seconds()


def is_group(value: object) -> bool:
    """Return whether it is a process group that this rank is in."""
    return isinstance(value, torch.distributed.ProcessGroup)


def new_group(timeout: float) -> tuple[Any, str]:
    """Make a process group of all ranks; return it with its name, the same on all ranks."""
    group = torch.distributed.new_group(timeout=timedelta(seconds=timeout))
    return group, torch.distributed.distributed_c10d._world.pg_names[group]  # noqa: SLF001


def end_group(group: Any) -> None:
    """End a process group."""
    torch.distributed.destroy_process_group(group)


def begin_all_to_all(
    sent: Tensor, received: Tensor, send_counts: list[int], receive_counts: list[int], group: Any
) -> Any:
    """Begin an exchange of rows; return what is waited for."""
    return torch.distributed.all_to_all_single(
        received,
        sent,
        group=group,
        async_op=True,
        output_split_sizes=receive_counts,
        input_split_sizes=send_counts,
    )


def begin_all_reduce(values: Tensor, group: Any) -> Any:
    """Begin to add up a tensor of a group's ranks, None for all, in place; return what is waited for."""
    return torch.distributed.all_reduce(values, group=group, async_op=True)


#: Where launchers say how many ranks they have started on this machine: torchrun, Open MPI, MVAPICH, Intel MPI.
_COUNTS = (
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
)


def ranks_here(world_size: int | None = None) -> int:
    """Return how many ranks are on this machine: as the launcher says, or all, which is too many on several machines.

    Parameters
    ----------
    world_size
        All ranks; those of torch.distributed, where these are more.
    """
    for name in _COUNTS:
        count = os.environ.get(name, "")
        if count.isdecimal() and int(count) > 0:
            return int(count)
    _, of_job = rank_of_process(None, None)
    return max(world_size or 1, of_job)
