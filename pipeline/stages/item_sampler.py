"""The item sampler: which seeds make up which batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import as_cpu_tensor, whole_number
from headrace.pipeline.data.checks import check_switches
from headrace.pipeline.data.item_budget import as_costs
from headrace.pipeline.data.items import ItemSet
from headrace.pipeline.data.seen import argument
from headrace.pipeline.data.split_items import Items
from headrace.pipeline.data.times import as_times, dtype_of_times
from headrace.pipeline.data.typed_items import as_edge_ids, joined_rows
from headrace.pipeline.data.types import TypeName
from headrace.pipeline.plan import Divided, RunSettings, SourceStage
from headrace.pipeline.stages.item_source import ItemSource, OwnItemSource

if TYPE_CHECKING:
    from headrace.pipeline.data.label_range import LabelRange
    from headrace.pipeline.partition.partition import Partition

DEFAULT_BATCH_SIZE = 1024

#: Which order a seed and an epoch name. A checkpoint points into an order: it changes when that of
#: `headrace.ops.random.shuffle` does.
ORDER = "fisher-yates to 2**20, feistel on an even grid"


@dataclass(frozen=True, eq=False, repr=False)
class ItemSampler(SourceStage):
    """Cut the items of every epoch into batches.

    Batch *i* of epoch *e* depends on *i* and *e* alone, so a loader can seek to any batch. For up to 2**20 items every
    shuffled order is equally likely; the loader stores the order of the current epoch, in 8 bytes per item, and makes
    it in at most 2 to 3 milliseconds. The order of more items is a keyed permutation that is computed, not stored:
    billions of items take no memory. All ranks and workers draw the same order (see `headrace.ops.random.shuffle`).

    Parameters
    ----------
    items
        An int n (the ids 0..n-1), a ``range``, integer ids [num_items], a boolean mask [num_nodes], integer pairs
        [num_items, 2] (or groups of k nodes, [num_items, k]), or any of these with labels [num_items, ...], which
        become ``batch.y``: a tuple ``(ids, labels)``, a list of two tensors, or a ``torch.utils.data.Dataset`` of (id,
        label). Pairs are one tensor or NumPy array; a list of pairs is refused, because it could also hold ids and
        labels. For a graph with types, ids by node type, ``{"paper": ids}``, pairs by edge type, ``{("user", "rates",
        "movie"): pairs}``, and with labels ``{"paper": (ids, labels)}``. These ids count within the type;
        ``batch.seeds`` are global ids, by the types of the sampled graph. Tensors must be in CPU memory. Non-contiguous
        and memory-mapped arrays are read in place, and may be written as features may (`FeatureStore`); items by type
        are copied, and a mask is read once: the next epoch refuses one that was written since. `hr.Items`, such as
        those of `split_links` and of data sets, are items with their labels and times. A mask may be a feature,
        ``store.node["train_mask"]``.
    batch_size
        Items in a batch, over all ranks together: one batch is one optimiser step. Default 1024.
    batch_size_per_rank
        The alternative: items in one rank's share of a batch. Give one of the two.
    shuffle
        Whether every epoch has a new order of the items.
    drop_last
        Whether a last batch of fewer than ``batch_size`` items is left out.
    cost
        The cost of each item, integers [num_items], such as its in-degree; for items by type a dictionary with the same
        keys.
    budget
        The largest cost of a batch, over all ranks. A batch ends before its cost would exceed it, or at ``batch_size``
        items if given; a single item that costs more is a batch of its own. If items are shuffled, epochs have
        different numbers of batches, so the loader has no length.
    seed
        Seed of all randomness in the plan: the shuffle and all samplers that follow. The default is
        ``torch.initial_seed()`` when the plan is made, so ``torch.manual_seed`` decides it. The plan prints the seed,
        and a checkpoint restores it. Without a given seed, ranks of torch.distributed, and ranks that make batches
        together, take that of rank 0. If you pass ``rank=`` and ``world_size=``, give all ranks the same seed.
    time
        The time of each item, [num_items] integers or floating point, for temporal samplers; it becomes
        ``batch.seed_time``. For items by type a dictionary with the same keys. Or the name of the node attribute with
        the times, the same name as in the sampler; this is the default if nodes have times. Only samplers with
        ``time=`` use the times, rounded to float32 if those of the graph are float32. With other samplers they are only
        in ``batch.seed_time``, for the model, and later edges and nodes are sampled, too: the loader warns of it.
    edge_ids
        For items that are pairs: the id of the edge that each item is, integers [num_items] in the order of your edges.
        For items by type a dictionary with the same keys; ids then count within the edge type. They distinguish repeats
        of an edge: ``exclude_seed_edges(by="edge_id")`` reads them, and must follow.
    partition
        The owner of each node: each rank takes the seeds that it owns, in place of a contiguous share of the batch.
        Batches stay the same; shares may differ in size.
    items_per_rank
        Whether each rank brings its own items, as in scripts that split the ids themselves. By default all ranks give
        the same items, and each takes its share. With their own items, all ranks have the same number of batches and
        finish an epoch together: a batch takes items from each rank in proportion to their number, so every item is
        used once in an epoch. With ``batch_size_per_rank`` the rank with the most items has that many in each batch. A
        rank may have no items, and a share may be empty. ``batch.item_index`` counts within the rank's own items. Each
        rank shuffles its own items, and a checkpoint is valid for these items and this number of ranks.
        `exclude_seed_edges` leaves out the edges of the rank's own pairs.

    Raises
    ------
    InputError
        For items that are empty, negative, of a wrong dtype or shape, or ambiguous (pairs, or ids with labels); for a
        batch size below 1; for a partition if items are pairs; for a number of edge ids that differs from that of
        pairs; for times that are NaN or have a wrong dtype or length; for costs that are negative, not integers, of a
        wrong length, or without a budget.
    """

    name: ClassVar[str] = "item_sampler"
    counts_alike: ClassVar[bool] = True

    items: Any  # every spelling that ItemSet.of takes; an ItemSet once constructed
    batch_size: int | None = field(default=None, kw_only=True)
    batch_size_per_rank: int | None = field(default=None, kw_only=True)
    shuffle: bool = field(default=False, kw_only=True)
    drop_last: bool = field(default=False, kw_only=True)
    cost: Any = field(default=None, kw_only=True)  # a tensor once constructed
    budget: int | None = field(default=None, kw_only=True)
    seed: Any = field(default=None, kw_only=True)  # None or an int; an int once constructed
    time: Any = field(default=None, kw_only=True)  # None, a name, or times; a tensor of these once constructed
    edge_ids: Any = field(default=None, kw_only=True)  # None, or ids by type; int64[num_items] once constructed
    partition: Partition | None = field(default=None, kw_only=True)
    items_per_rank: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        switches = {name: getattr(self, name) for name in ("items_per_rank", "shuffle", "drop_last")}
        check_switches("ItemSampler", InputError, **switches)
        if isinstance(self.items, Items) and self.time is None:
            object.__setattr__(self, "time", self.items.times)
            object.__setattr__(self, "_times_of_items", self.time is not None)
        object.__setattr__(self, "items", ItemSet.of(self.items, allow_none=self.items_per_rank))
        if self.batch_size is not None and self.batch_size_per_rank is not None:
            raise InputError("give batch_size (over all ranks) or batch_size_per_rank, not both")
        if self.batch_size is None and self.batch_size_per_rank is None and self.budget is None:
            object.__setattr__(self, "batch_size", DEFAULT_BATCH_SIZE)
        for name in ("batch_size", "batch_size_per_rank", "budget"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole_number(getattr(self, name), f"ItemSampler: {name}", 1, InputError))
        if self.cost is not None or self.budget is not None:
            self._check_budget()
            object.__setattr__(self, "cost", as_costs(self.cost, self.items))
        if self.time is not None and not isinstance(self.time, str):
            checked = self._checked_time()
            object.__setattr__(self, "_time_dtype", dtype_of_times(self.time))
            object.__setattr__(self, "time", checked)
        if self.edge_ids is not None:
            object.__setattr__(self, "edge_ids", as_edge_ids(self.edge_ids, self.items))
        if self.partition is not None:
            self._check_partition(self.partition)
        if self.items_per_rank:
            self._check_items_per_rank()
        for name in ("cost", "edge_ids"):
            if getattr(self, name) is not None:
                self.keep_seen(argument("ItemSampler", name, getattr(self, name)))
        for mask in self.items.masks:
            self.keep_seen(mask)
        self.settle_seed()

    def _check_partition(self, partition: object) -> None:
        from headrace.pipeline.partition.partition import Partition

        if not isinstance(partition, Partition):
            raise InputError(
                f"ItemSampler: expected an hr.Partition as partition, got {type(partition).__name__}; make one, "
                "hr.Partition.hash(num_nodes, num_ranks)"
            )
        if self.items.are_pairs:
            raise InputError("ItemSampler: a pair may have two owners, so pairs cannot be shared by partition")
        if self.items.mask_size not in (None, partition.num_nodes):
            raise InputError(
                f"ItemSampler: expected a mask for the partition's {partition.num_nodes} nodes, got one of "
                f"{self.items.mask_size}; give the mask and the partition of one graph"
            )
        largest = self.largest_id
        if largest is not None and largest >= partition.num_nodes:
            raise InputError(
                f"ItemSampler: expected items among the partition's {partition.num_nodes} nodes, got node {largest}, "
                "which no rank owns; give the items and the partition of one graph"
            )

    def _check_items_per_rank(self) -> None:
        for name, why in (
            ("budget", "a budget cuts batches from the items of all ranks, and this rank knows its own"),
            ("partition", "each rank takes its own items, not those that it owns"),
        ):
            if getattr(self, name) is not None:
                raise InputError(
                    f"ItemSampler: expected items_per_rank=True without {name}=, got both: {why}; leave {name}= out, "
                    "or give all ranks the same items"
                )

    def _check_budget(self) -> None:
        if self.cost is None or self.budget is None:
            raise InputError(
                "ItemSampler: expected cost= and budget= together, got one of them; cost=graph.in_degrees()[ids] with "
                "budget=100_000 ends batches at so many edges"
            )
        if self.batch_size_per_rank is not None or self.drop_last:
            which = "drop_last=True" if self.drop_last else "batch_size_per_rank"
            raise InputError(
                f"ItemSampler: expected a budget for batches of all ranks together, of which none is too small, got "
                f"{which} beside it; leave it out"
            )

    def _checked_time(self) -> torch.Tensor:
        types = self.items.types
        if types is not None and isinstance(self.time, Mapping):
            for name, given in self.time.items():
                self._note_copy(f"time of type {name!r}", given)
            return joined_rows(self.time, types, "time", lambda one: as_times(one, "time"))
        time = as_times(self.time, "time")
        if as_cpu_tensor(self.time, "time").data_ptr() != time.data_ptr():  # of another dtype
            self._note_copy("time", self.time)
        if len(time) != len(self.items):
            of_all = len(time) == self.items.mask_size
            raise InputError(
                f"ItemSampler: expected a time for each of {len(self.items)} items, got {len(time)}"
                f"{'; pass time[mask]' if of_all else ''}"
            )
        return time

    def _note_copy(self, what: str, given: Any) -> None:
        object.__setattr__(self, "items", self.items.also_of(what, as_cpu_tensor(given, what)))

    def as_written(self) -> dict[str, Any]:
        given = super().as_written()
        return {**given, "time": None} if self.__dict__.get("_times_of_items", False) else given

    def decisive(self) -> dict[str, Any]:
        # Who takes which share changes no batch.
        decisive = {name: value for name, value in self.parameters().items() if name != "partition"}
        for name in ("time", "cost", "budget", "edge_ids"):  # checkpoints of before there were such stay valid
            if getattr(self, name) is None:
                del decisive[name]
        if not self.items_per_rank:
            del decisive["items_per_rank"]
        else:  # what all ranks have in common of it
            decisive["items"] = self.items.kind()
            if isinstance(self.time, torch.Tensor):
                decisive["time"] = str(self.time.dtype)
            if self.edge_ids is not None:
                decisive["edge_ids"] = "given"
        return {**decisive, "order": ORDER} if self.shuffle else decisive

    @property
    def writes(self) -> frozenset[str]:
        labelled = {"y"} if self.items.labels is not None else set()
        timed = {"seed_time"} if isinstance(self.time, torch.Tensor) else set()
        return frozenset({"seeds", "seed_index", "item_index", "n_id", "num_sampled_nodes"} | labelled | timed)

    def own_data(self) -> dict[str, Any]:
        edge_ids = {} if self.edge_ids is None else {"edge_ids": self.edge_ids}
        return {"items": self.items, "time": self.time, **edge_ids} if self.items_per_rank else {}

    @property
    def largest_id(self) -> int | None:
        return None if self.items.types is not None or not len(self.items) else int(self.items.largest_id)

    @property
    def num_nodes(self) -> int | None:
        return None if self.partition is None else self.partition.num_nodes

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

    def seeds_per_batch(self, world_size: int) -> int:
        if self.budget is not None or self.items_per_rank:
            return 1
        size = self.batch_size_per_rank
        if size is None:
            size = -(-(self.batch_size or 1) // world_size)
        return max(1, min(size, len(self.items) // world_size))

    @property
    def label_range(self) -> LabelRange | None:
        from headrace.pipeline.data.label_range import LabelRange  # loaded where negatives are drawn

        return LabelRange.of(self.items.labels)

    @property
    def gives_labels(self) -> bool:
        return self.items.labels is not None

    @property
    def seed_times(self) -> torch.Tensor | str | None:
        times: torch.Tensor | str | None = self.time
        return times

    @property
    def seed_edge_ids(self) -> torch.Tensor | None:
        ids: torch.Tensor | None = self.edge_ids
        return ids

    @property
    def gives_no_times(self) -> bool:
        return self.time is None

    def divided(self) -> tuple[Divided, ...]:
        return () if self.partition is None else (Divided("the partition of the items", self.partition),)

    def source(self, settings: RunSettings) -> ItemSource | OwnItemSource:
        return OwnItemSource(self, settings) if self.items_per_rank else ItemSource(self, settings)
