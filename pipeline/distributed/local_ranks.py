"""How many ranks share the memory of this machine."""

from __future__ import annotations

import os

from headrace.pipeline.distributed.job import rank_of_process

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
