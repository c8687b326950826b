"""The one module that imports torch.distributed."""

from __future__ import annotations

import torch.distributed

from headrace.ops.errors import PlanError


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
    if not 0 <= rank < world_size:
        raise PlanError(f"rank must be in [0, world_size); rank={rank}, world_size={world_size} came")
    return rank, world_size
