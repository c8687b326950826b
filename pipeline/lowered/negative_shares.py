"""How the negatives of a batch are divided among its pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.ops.errors import ItemsError
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.stage import RunSettings


def shares(total: int, size: int, first: int, count: int) -> Tensor:
    """Return how many of a batch's negatives belong to pairs first, first + 1, ... of `size`: int64[count]."""
    if size == 0:
        return torch.zeros(count, dtype=torch.int64, device="cpu")
    return total // size + (torch.arange(first, first + count, device="cpu") < total % size).long()


def first_of_share(batch: MiniBatch, settings: RunSettings) -> int:
    """Return where the pairs of this rank begin in the batch, of which ranks take shares one behind the other.

    Raises
    ------
    ItemsError
        If the rank has others than its share.
    """
    if settings.rank_items and batch.seed_slot is not None:  # ranks bring their own, one behind the other as well
        return int(batch.seed_slot[0]) if batch.num_seeds else 0
    size, rank, world_size = batch.num_global_seeds, settings.rank, settings.world_size
    first = size * rank // world_size
    if batch.num_seeds != size * (rank + 1) // world_size - first:
        raise ItemsError(
            f"sample_uniform_negative: expected {size * (rank + 1) // world_size - first} of the batch's {size} pairs "
            f"on rank {rank} of {world_size}, got {batch.num_seeds}; negatives are drawn by a pair's place in the "
            "batch, of which each rank has an even share"
        )
    return first


def pair_of_trees(num_pairs: int, num_trees: int) -> Tensor:
    """Return the positive pair that each tree is asked about, int64[num_trees].

    The first trees are those of the pairs; behind them are those of the negatives of the first pair, then of the
    second, and so on.
    """
    places = torch.arange(num_pairs, device="cpu")
    return torch.cat([places, places.repeat_interleave(shares(num_trees - num_pairs, num_pairs, 0, num_pairs))])
