"""The item sampler: which seeds make up which batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from headrace.ops.errors import ItemsError
from headrace.ops.memory_limit import check_fits_memory
from headrace.ops.random.rng import SHUFFLE, stream_key
from headrace.ops.random.shuffle import MOST_LISTED, shuffled_range
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.item_budget import as_costs, cut
from headrace.pipeline.data.items import ItemSet, seed_batch
from headrace.pipeline.data.times import as_times
from headrace.pipeline.data.type_offsets import TypeName
from headrace.pipeline.data.typed_items import joined_rows
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import BatchSource, SourceStage
from headrace.pipeline.plan.stage import Divided

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headrace.pipeline.partition.partition import Partition

DEFAULT_BATCH_SIZE = 1024

#: Which order a seed and an epoch name. A checkpoint points into an order: it changes when that of
#: `headrace.ops.random.shuffle` does.
ORDER = "fisher-yates to 2**20, feistel on an even grid"

#: `seeds`, `seed_index`, `item_index` and `n_id` of a batch.
BYTES_PER_SEED = 4 * 8


@dataclass(frozen=True, eq=False, repr=False)
class ItemSampler(SourceStage):
    """Cut the items of every epoch into batches.

    Batch *i* of epoch *e* is found from *i* and *e* alone, so any batch can be reached at once. Up to 2**20 items every
    shuffled order is equally likely; the loader keeps that of the current epoch, 8 bytes for each item, made in 2 to 3
    milliseconds at most. The order of more items is a keyed permutation that is evaluated, not stored: billions of
    items cost no memory. All ranks and workers draw the same order (see `headrace.ops.random.shuffle`).

    Parameters
    ----------
    items
        An int n (the ids 0..n-1), a ``range``, integer ids [num_items], a boolean mask [num_nodes], integer pairs
        [num_items, 2] (or more nodes that belong together, [num_items, k]), or any of these with labels [num_items,
        ...], which become ``batch.y``: a tuple ``(ids, labels)``, a list of two tensors, or a
        ``torch.utils.data.Dataset`` of (id, label). Pairs are one tensor or NumPy array: a list of them is refused, as
        it may as well hold ids with labels. Of a graph with types, ids that count within a type, ``{"paper": ids}``, or
        pairs, ``{("user", "rates", "movie"): pairs}``; what the sampler behind reads says where the type is, and
        ``batch.seeds`` are global ids. Tensors must be on the CPU; non-contiguous and memory-mapped arrays are read in
        place.
    batch_size
        Items in a batch, counted over all ranks together: one batch is one optimiser step. Default 1024.
    batch_size_per_rank
        The other spelling: items in one rank's share of a batch. Give one of the two.
    shuffle
        Whether every epoch goes through the items in a new order.
    drop_last
        Whether a last batch of fewer than ``batch_size`` items is left out.
    cost
        What each item costs, integers [num_items], such as its in-degree; of items by type a dictionary of the same
        keys.
    budget
        What the items of a batch may cost together, over all ranks. A batch ends before it would be exceeded, or at
        ``batch_size`` items where that is given; an item that costs more by itself is a batch of its own. Where items
        are shuffled epochs have different numbers of batches, so the loader has no length.
    seed
        Seed of everything random in the plan: the shuffle and all samplers downstream. By default
        ``torch.initial_seed()`` as the plan is made, so that ``torch.manual_seed`` decides it; the plan prints it, and
        a checkpoint brings it back. Ranks of torch.distributed, and those that make batches together, then take that of
        rank 0; where ``rank=`` and ``world_size=`` are given by hand, give all ranks the same seed.
    time
        When each item is asked for, [num_items] integers or floating point, for samplers that keep to times: they
        become ``batch.seed_time``; of items by type a dictionary of the same keys. Or the name of the node attribute
        that holds them, which is that of the sampler: the default where nodes have times.
    partition
        Let each rank take the seeds that it owns, in place of a contiguous share of the batch. Batches stay the same,
        shares may differ in size.

    Raises
    ------
    ItemsError
        For items that are empty, negative or of a wrong dtype or shape, or may be pairs as well as ids with labels, for
        a batch size below 1, for a partition of pairs, for times that are NaN, of another dtype or length, and for
        costs that are negative, no integers, of another length, or without a budget.
    """

    name: ClassVar[str] = "item_sampler"

    items: Any  # every spelling that ItemSet.of takes; an ItemSet once constructed
    batch_size: int | None = field(default=None, kw_only=True)
    batch_size_per_rank: int | None = field(default=None, kw_only=True)
    shuffle: bool = field(default=False, kw_only=True)
    drop_last: bool = field(default=False, kw_only=True)
    cost: Any = field(default=None, kw_only=True)  # a tensor once constructed
    budget: int | None = field(default=None, kw_only=True)
    seed: Any = field(default=None, kw_only=True)  # None or an int; an int once constructed
    time: Any = field(default=None, kw_only=True)  # None, a name, or times; a tensor of these once constructed
    partition: Partition | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", ItemSet.of(self.items))
        if self.batch_size is not None and self.batch_size_per_rank is not None:
            raise ItemsError("give batch_size (over all ranks) or batch_size_per_rank, not both")
        if self.batch_size is None and self.batch_size_per_rank is None and self.budget is None:
            object.__setattr__(self, "batch_size", DEFAULT_BATCH_SIZE)
        for name in ("batch_size", "batch_size_per_rank", "budget"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole_number(getattr(self, name), f"ItemSampler: {name}", 1, ItemsError))
        for name in ("shuffle", "drop_last"):
            if not isinstance(getattr(self, name), bool):
                raise ItemsError(f"ItemSampler: {name} must be True or False; {getattr(self, name)!r} came")
        if self.cost is not None or self.budget is not None:
            self._check_budget()
            object.__setattr__(self, "cost", as_costs(self.cost, self.items))
        if self.time is not None and not isinstance(self.time, str):
            object.__setattr__(self, "time", self._checked_time())
        if self.partition is not None and self.items.are_pairs:
            raise ItemsError("ItemSampler: a pair may have two owners, so pairs cannot be shared by partition")
        if self.partition is not None and self.items.mask_size not in (None, self.partition.num_nodes):
            raise ItemsError(
                f"ItemSampler: expected a mask for the partition's {self.partition.num_nodes} nodes, got one of "
                f"{self.items.mask_size}; give the mask and the partition of one graph"
            )
        self.settle_seed()

    def _check_budget(self) -> None:
        if self.cost is None or self.budget is None:
            raise ItemsError(
                "ItemSampler: expected cost= and budget= together, got one of them; cost=graph.in_degrees()[ids] with "
                "budget=100_000 ends batches at so many edges"
            )
        if self.batch_size_per_rank is not None or self.drop_last:
            which = "drop_last=True" if self.drop_last else "batch_size_per_rank"
            raise ItemsError(
                f"ItemSampler: expected a budget for batches of all ranks together, of which none is too small, got "
                f"{which} beside it; leave it out"
            )

    def _checked_time(self) -> torch.Tensor:
        types = self.items.types
        if types is not None and isinstance(self.time, Mapping):
            return joined_rows(self.time, types, "time", lambda one: as_times(one, "time", ItemsError))
        time = as_times(self.time, "time", ItemsError)
        if len(time) != len(self.items):
            of_all = len(time) == self.items.mask_size
            raise ItemsError(
                f"ItemSampler: expected a time for each of {len(self.items)} items, got {len(time)}"
                f"{'; pass time[mask]' if of_all else ''}"
            )
        return time

    def decisive(self) -> dict[str, Any]:
        # Who takes which share changes no batch.
        decisive = {name: value for name, value in self.parameters().items() if name != "partition"}
        for name in ("time", "cost", "budget"):  # checkpoints of before there were such stay valid
            if getattr(self, name) is None:
                del decisive[name]
        return {**decisive, "order": ORDER} if self.shuffle else decisive

    @property
    def writes(self) -> frozenset[str]:
        labelled = {"y"} if self.items.labels is not None else set()
        timed = {"seed_time"} if isinstance(self.time, torch.Tensor) else set()
        return frozenset({"seeds", "seed_index", "item_index", "n_id", "num_sampled_nodes"} | labelled | timed)

    @property
    def largest_id(self) -> int | None:
        return None if self.items.types is not None else int(self.items.largest_id)

    @property
    def mask_size(self) -> int | None:
        size: int | None = self.items.mask_size
        return size

    @property
    def gives_pairs(self) -> bool:
        return bool(self.items.are_pairs)

    @property
    def nodes_per_seed(self) -> int | None:
        return int(self.items.nodes_per_item)

    @property
    def seed_types(self) -> tuple[TypeName, ...]:
        return tuple(name for name, count in self.items.types or () if count)

    def all_seeds(self) -> torch.Tensor | None:
        seeds: torch.Tensor = self.items.all_ids()
        return None if self.items.types is not None else seeds

    @property
    def smallest_label(self) -> float | None:
        return None if self.items.labels is None else float(self.items.labels.min())

    @property
    def gives_labels(self) -> bool:
        return self.items.labels is not None

    @property
    def seed_times(self) -> torch.Tensor | str | None:
        times: torch.Tensor | str | None = self.time
        return times

    @property
    def gives_no_times(self) -> bool:
        return self.time is None

    def divided(self) -> tuple[Divided, ...]:
        return () if self.partition is None else (Divided("the partition of the items", self.partition),)

    def source(self, settings: RunSettings) -> ItemSource:
        return ItemSource(self, settings)


class ItemSource(BatchSource):
    """Draws the batches of an :class:`ItemSampler` for one rank.

    A rank takes a contiguous share of every batch, so all ranks see the same number of batches; a share may be empty
    when the last batch has fewer items than there are ranks.
    """

    def __init__(self, sampler: ItemSampler, settings: RunSettings) -> None:
        self._sampler = sampler
        self._settings = settings
        self._epoch = 0
        self._next = 0
        self._listed: tuple[int, NDArray[np.int64]] | None = None  # an epoch, and the order of its items
        self._cut: tuple[int, NDArray[np.int64]] | None = None  # an epoch, and where its batches begin by the budget
        num_items = len(sampler.items)
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
            raise ItemsError(
                f"drop_last leaves no batch: {num_items} items are fewer than one batch of {size}; "
                f"lower batch_size or set drop_last=False"
            )
        share = -(-min(size, num_items) // settings.world_size)
        check_fits_memory(
            BYTES_PER_SEED * share,
            f"ItemSampler: got batches of {min(size, num_items):,} items",
            "lower batch_size",
            ItemsError,
        )

    def seek(self, epoch: int, state: dict[str, Any] | None) -> None:
        self._epoch = epoch
        self._next = 0 if state is None else int(state["batch"])

    def draw(self) -> MiniBatch:
        if self._next >= self.count(self._epoch):
            raise StopIteration
        batch = self.batch_at(self._epoch, self._next)
        self._next += 1
        return batch

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
        return seed_batch(
            sampler.items,
            positions,
            epoch=epoch,
            index=index,
            num_global_seeds=size,
            seed_time=sampler.time[torch.from_numpy(positions)] if isinstance(sampler.time, torch.Tensor) else None,
            seed_slot=None if slots is None else torch.from_numpy(slots),
        )

    def whole_seeds(self, epoch: int, index: int) -> torch.Tensor:
        items: ItemSet = self._sampler.items
        seeds, _ = items.take(self._positions(epoch, *self._ends(epoch, index)))
        return seeds

    def count(self, epoch: int) -> int:
        """Return the number of batches of an epoch."""
        return len(self._starts(epoch)) - 1 if self.num_batches is None else self.num_batches

    def _ends(self, epoch: int, index: int) -> tuple[int, int]:
        """Return where a batch begins and ends in the order of an epoch."""
        if self._sampler.budget is not None:
            starts = self._starts(epoch)
            return int(starts[index]), int(starts[index + 1])
        return index * self._size, min((index + 1) * self._size, len(self._sampler.items))

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

    def _positions(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        """Return the items at positions start, ..., stop - 1 of an epoch."""
        return self._shuffled(epoch, start, stop) if self._sampler.shuffle else np.arange(start, stop, dtype=np.int64)

    def _shuffled(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        """Return the items at positions start, ..., stop - 1 of the epoch's order; int64, not to be changed."""
        listed = self._listed
        if listed is None or listed[0] != epoch:
            num_items = len(self._sampler.items)
            key = stream_key(self._sampler.seed, epoch, 0, 0, SHUFFLE)
            if num_items > MOST_LISTED:
                return shuffled_range(num_items, start, stop, key).numpy()
            listed = self._listed = epoch, shuffled_range(num_items, 0, num_items, key).numpy()
        return listed[1][start:stop]
