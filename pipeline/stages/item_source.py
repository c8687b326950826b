"""The sources of an item sampler: each rank takes its share of every batch, of common items or of its own."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace.ops.errors import InputError
from headrace.ops.memory_limit import check_fits_memory
from headrace.ops.random.rng import SHUFFLE, stream_key
from headrace.ops.random.shuffle import MOST_LISTED, shuffled_range
from headrace.pipeline.data import ItemSet, MiniBatch, version_reader
from headrace.pipeline.data.item_budget import cut
from headrace.pipeline.data.items import seed_batch
from headrace.pipeline.plan import NumberedSource, PlanError, RunSettings, Watched

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headrace.pipeline.stages.item_sampler import ItemSampler


#: `seeds`, `seed_index`, `item_index` and `n_id` of a batch.
BYTES_PER_SEED = 4 * 8


class DrawnItems(NumberedSource):
    """Draws the batches of an :class:`ItemSampler` one after the other, out of its items in the order of an epoch."""

    #: Whose order of items it is: ranks that share items have that of rank 0, which is the order of one process.
    order_of = 0

    def __init__(self, sampler: ItemSampler, settings: RunSettings) -> None:
        self._sampler = sampler
        self._settings = settings
        self._kept = sampler.items.masks  # of which items are copies
        self._listed: tuple[int, NDArray[np.int64]] | None = None  # an epoch, and the order of its items

    def watched(self) -> tuple[Watched, ...]:
        items, time = self._sampler.items, self._sampler.time
        named = {"items": items.ids, "labels of items": items.labels, "times of items": time}
        tensors = {what: tensor for what, tensor in named.items() if isinstance(tensor, torch.Tensor)}
        tensors.update({one.what: one.array for one in self._kept})
        readers = {what: version_reader(tensor) for what, tensor in tensors.items()}
        return tuple(Watched(what, reader) for what, reader in readers.items() if reader is not None)

    def _batch(
        self, positions: NDArray[np.int64], epoch: int, index: int, num_seeds: int, slots: torch.Tensor | None
    ) -> MiniBatch:
        """Return the batch of some items, in their slots among `num_seeds` of all ranks."""
        for one in self._kept:
            one.check_version()
        sampler = self._sampler
        return seed_batch(
            sampler.items,
            positions,
            epoch=epoch,
            index=index,
            num_global_seeds=num_seeds,
            seed_time=sampler.time[torch.from_numpy(positions)] if isinstance(sampler.time, torch.Tensor) else None,
            seed_slot=slots,
        )

    def _positions(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        """Return the items at positions start, ..., stop - 1 of an epoch; int64, not to be changed."""
        if not self._sampler.shuffle:
            return np.arange(start, stop, dtype=np.int64)
        listed = self._listed
        if listed is None or listed[0] != epoch:
            num_items = len(self._sampler.items)
            key = stream_key(self._sampler.seed, epoch, self.order_of, 0, SHUFFLE)
            if num_items > MOST_LISTED:
                return shuffled_range(num_items, start, stop, key).numpy()
            listed = self._listed = epoch, shuffled_range(num_items, 0, num_items, key).numpy()
        return listed[1][start:stop]


class ItemSource(DrawnItems):
    """Draws the batches of an :class:`ItemSampler` for one rank.

    A rank takes a contiguous share of every batch, so all ranks see the same number of batches; a share may be empty
    when the last batch has fewer items than there are ranks.
    """

    def __init__(self, sampler: ItemSampler, settings: RunSettings) -> None:
        super().__init__(sampler, settings)
        self._cut: tuple[int, NDArray[np.int64]] | None = None  # an epoch, and where its batches begin by the budget
        self._num_items = num_items = len(sampler.items)
        size = sampler.batch_size
        if sampler.budget is not None:
            # A checkpoint counts batches, which are the same for any number of ranks.
            self.batch_size: int | None = None
            self.num_batches: int | None = None if sampler.shuffle else len(self._starts(0)) - 1
            return
        if size is None:
            assert sampler.batch_size_per_rank is not None  # one of the two is set, see __post_init__
            size = sampler.batch_size_per_rank * settings.world_size
        self.batch_size = self._size = size
        self.num_batches = num_items // size if sampler.drop_last else -(-num_items // size)
        if self.num_batches == 0:
            raise InputError(
                f"drop_last leaves no batch: {num_items} items are fewer than one batch of {size}; "
                f"lower batch_size or set drop_last=False"
            )
        share = -(-min(size, num_items) // settings.world_size)
        check_fits_memory(
            BYTES_PER_SEED * share,
            f"ItemSampler: got batches of {min(size, num_items):,} items",
            "lower batch_size",
        )

    def batch_at(self, epoch: int, index: int) -> MiniBatch:
        """Return this rank's share of batch ``index`` of ``epoch``."""
        sampler, settings = self._sampler, self._settings
        first, end = self._ends(epoch, index)
        size = end - first
        partition = sampler.partition if settings.world_size > 1 else None
        by_owner = partition is not None
        start = first if by_owner else first + size * settings.rank // settings.world_size
        stop = first + size if by_owner else first + size * (settings.rank + 1) // settings.world_size
        positions = self._positions(epoch, start, stop)
        slots = None if settings.world_size == 1 else np.arange(start - first, stop - first)
        if partition is not None:
            seeds, _ = sampler.items.take(positions)
            mine = partition.owner(seeds).numpy() == settings.rank
            positions, slots = positions[mine], np.flatnonzero(mine)
        return self._batch(positions, epoch, index, size, None if slots is None else torch.from_numpy(slots))

    @property
    def smallest_share(self) -> int | None:
        sampler, rank, world_size = self._sampler, self._settings.rank, self._settings.world_size
        if sampler.budget is not None or (sampler.partition is not None and world_size > 1):
            return None
        assert self.num_batches is not None  # batches of a number of items are known
        sizes = [end - first for first, end in (self._ends(0, batch) for batch in (0, self.num_batches - 1))]
        return min(size * (rank + 1) // world_size - size * rank // world_size for size in sizes)

    def whole_seeds(self, epoch: int, index: int) -> torch.Tensor:
        items: ItemSet = self._sampler.items
        seeds, _ = items.take(self.whole_items(epoch, index).numpy())
        return seeds

    def whole_items(self, epoch: int, index: int) -> torch.Tensor:
        return torch.from_numpy(self._positions(epoch, *self._ends(epoch, index)))

    def count(self, epoch: int) -> int:
        """Return the number of batches of an epoch."""
        return len(self._starts(epoch)) - 1 if self.num_batches is None else self.num_batches

    def _ends(self, epoch: int, index: int) -> tuple[int, int]:
        """Return where a batch begins and ends in the order of an epoch."""
        if self._sampler.budget is not None:
            starts = self._starts(epoch)
            return int(starts[index]), int(starts[index + 1])
        return index * self._size, min((index + 1) * self._size, self._num_items)

    def _starts(self, epoch: int) -> NDArray[np.int64]:
        """Return where the batches of an epoch begin by the budget, with the end of the last one."""
        sampler, known = self._sampler, self._cut
        assert sampler.budget is not None
        if not sampler.shuffle:
            epoch = 0
        if known is None or known[0] != epoch:
            order = self._positions(epoch, 0, len(sampler.items))
            known = self._cut = epoch, cut(sampler.cost.numpy()[order], sampler.budget, sampler.batch_size)
        return known[1]


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
                "torch.distributed, or give the loader a channel, comm=hr.testing.LocalGroup(world_size).comms[rank]"
            )
        if not sum(counts):
            raise InputError("ItemSampler needs at least one item on some rank; every rank has an empty set")
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
            raise InputError(
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
