"""The source of an item sampler whose ranks bring their own items: all ranks draw the same number of batches."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from headrace.ops.errors import ItemsError, PlanError
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.items import ItemSet
from headrace.pipeline.plan.stage import RunSettings
from headrace.pipeline.stages.item_source import DrawnItems

if TYPE_CHECKING:
    from headrace.pipeline.stages.item_sampler import ItemSampler

#: Batches that are looked through for an empty share before work starts.
MOST_COUNTED = 1 << 12


class OwnItemSource(DrawnItems):
    """Draws the shares of one rank from its own items, by the numbers of items of all ranks.

    A batch is the shares of all ranks, rank by rank: the slots of seeds, by which trees and negatives are drawn, count
    through it.
    """

    def __init__(self, sampler: ItemSampler, settings: RunSettings) -> None:
        super().__init__(sampler, settings)
        self.order_of = settings.rank  # each rank has one of its own
        counts = settings.rank_items or (len(sampler.items),)
        if len(counts) != settings.world_size:
            raise PlanError(
                f"item_sampler: items_per_rank=True expected ranks that tell each other how many items they have, got "
                f"rank {settings.rank} of {settings.world_size} by hand; leave rank= and world_size= out under "
                "torch.distributed, or give the loader a channel, comm=hr.LocalGroup(world_size).comms[rank]"
            )
        if not sum(counts):
            raise ItemsError("ItemSampler needs at least one item on some rank; every rank has an empty set")
        # Loaded where ranks bring items of their own.
        from headrace.pipeline.data.rank_shares import RankShares

        self._shares = RankShares(counts, sampler.batch_size, sampler.batch_size_per_rank, drop_last=sampler.drop_last)
        size = sampler.batch_size
        if size is None:
            assert sampler.batch_size_per_rank is not None  # one of the two is set
            size = sampler.batch_size_per_rank * settings.world_size
        self.batch_size: int | None = size
        self.num_batches: int = self._shares.num_batches
        if self.num_batches == 0:
            raise ItemsError(
                f"drop_last leaves no batch: {sum(counts)} items of all ranks are fewer than one batch of {size}; "
                "lower batch_size or set drop_last=False"
            )

    def batch_at(self, epoch: int, index: int) -> MiniBatch:
        """Return this rank's share of batch ``index`` of ``epoch``."""
        first, last, before, num_seeds = self._share(index)
        slots = None if self._settings.world_size == 1 else torch.arange(before, before + last - first, device="cpu")
        return self._batch(self._positions(epoch, first, last), epoch, index, num_seeds, slots)

    @property
    def smallest_share(self) -> int | None:
        if self.num_batches > MOST_COUNTED:
            return None
        taken = [self._shares.before(batch)[self._settings.rank] for batch in range(self.num_batches + 1)]
        return min(behind - before for before, behind in pairwise(taken))

    def whole_seeds(self, epoch: int, index: int) -> torch.Tensor:
        """Return the pairs of this rank in their slots; the others are unknown, and have the first of these."""
        items: ItemSet = self._sampler.items
        seeds, _ = items.take(self.whole_items(epoch, index).numpy())
        return seeds

    def whole_items(self, epoch: int, index: int) -> torch.Tensor:
        first, last, before, num_seeds = self._share(index)
        mine = torch.from_numpy(self._positions(epoch, first, last))
        if not len(mine):
            return mine
        return torch.cat([mine[:1].expand(before), mine, mine[:1].expand(num_seeds - before - len(mine))])

    def check_whole_seeds(self) -> None:
        if self._settings.comm is not None:
            raise PlanError(
                "exclude_seed_edges: expected ranks that make batches together to know the pairs of all ranks, got "
                "ItemSampler(items_per_rank=True), of which each knows its own; give all ranks the same items"
            )

    def _share(self, index: int) -> tuple[int, int, int, int]:
        """Return where a rank's share begins and ends in its items, and in the batch where, of how many seeds."""
        before, behind = self._shares.before(index), self._shares.before(index + 1)
        sizes = [end - start for start, end in zip(before, behind, strict=True)]
        rank = self._settings.rank
        return before[rank], behind[rank], sum(sizes[:rank]), sum(sizes)
