"""How the negatives of a batch are divided among its pairs."""

from __future__ import annotations

import torch
from torch import Tensor


def shares(total: int, size: int, first: int, count: int) -> Tensor:
    """Return how many of a batch's negatives belong to pairs first, first + 1, ... of `size`: int64[count]."""
    if size == 0:
        return torch.zeros(count, dtype=torch.int64)
    return total // size + (torch.arange(first, first + count) < total % size).long()


def pair_of_trees(num_pairs: int, num_trees: int) -> Tensor:
    """Return the positive pair that each tree is asked about, int64[num_trees].

    The first trees are those of the pairs; behind them are those of the negatives of the first pair, then of the
    second, and so on.
    """
    places = torch.arange(num_pairs)
    return torch.cat([places, places.repeat_interleave(shares(num_trees - num_pairs, num_pairs, 0, num_pairs))])
