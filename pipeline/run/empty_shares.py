"""A warning for ranks whose share of a batch is empty: the mean of no losses is NaN, which is in all weights then."""

from __future__ import annotations

import warnings
from typing import Any

from headrace.pipeline.data.batch import MiniBatch


class EmptyShares:
    """Warns once, before work starts where that is known by then, else at the first empty share.

    Parameters
    ----------
    rank, world_size
        This rank.
    smallest
        Seeds in its smallest share; None if that shows only with batches.
    """

    def __init__(self, rank: int, world_size: int, smallest: int | None) -> None:
        self._rank = rank
        self._is_watching = world_size > 1 and smallest is None
        if world_size > 1 and smallest == 0:
            self._warn("gets a share without seeds of some batches")

    def look(self, batch: Any) -> None:
        """Look at a batch that is handed out."""
        if self._is_watching and isinstance(batch, MiniBatch) and not batch.num_seeds:
            self._is_watching = False
            self._warn(f"got a share without seeds of batch {batch.index}")

    def _warn(self, what: str) -> None:
        warnings.warn(
            f"rank {self._rank} {what}, over which the mean of losses is NaN: take "
            'cross_entropy(out, batch.y, reduction="sum") / batch.num_global_seeds, and let ranks add up gradients, '
            "ddp.register_comm_hook(None, hr.sum_hook); or leave small batches out, ItemSampler(drop_last=True)",
            stacklevel=2,
        )
