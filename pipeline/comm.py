"""The one module that imports torch.distributed."""

from __future__ import annotations

import torch.distributed

from headrace.ops.errors import PlanError
from headrace.pipeline.arrays import whole_number


def place_of_process(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return (rank, world size): those given, else torch.distributed's when it is initialised, else (0, 1).

    Raises
    ------
    PlanError
        If only one of the two is given, or the rank is not below the world size.
    """
    if (rank is None) != (world_size is None):
        raise PlanError(f"give rank and world_size together; rank={rank}, world_size={world_size} came")
    if rank is None or world_size is None:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return 0, 1
    world_size = whole_number(world_size, "world_size", 1, PlanError)
    return whole_number(rank, "rank", 0, PlanError, world_size - 1), world_size
