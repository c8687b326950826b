"""Sources: the stages that begin a plan, and the objects that draw their batches of items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from headrace.ops.errors import InputError, PlanError
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.plan.text import describe
from headrace.pipeline.plan.traits import KnownNodes, Watched

if TYPE_CHECKING:
    from headrace.pipeline.data import LabelRange, MiniBatch, TypeName
    from headrace.pipeline.plan.settings import RunSettings

#: Seeds are 64-bit keys of the random streams.
LARGEST_SEED = (1 << 64) - 1

#: Epochs are 32-bit words of the random streams' counters.
LAST_EPOCH = (1 << 32) - 1


class BatchSource(ABC):
    """Runs a :class:`SourceStage`: yields minibatches in order, and can seek to any of them.

    The position is the number of batches drawn in the epoch, which the loader counts, and the value of :meth:`state`.

    >>> import headrace as hr, torch
    >>> class Pairs(hr.ext.BatchSource):
    ...     num_batches = 2
    ...     def seek(self, epoch, state):
    ...         self.epoch, self.drawn = epoch, 0 if state is None else state["batch"]
    ...     def draw(self):
    ...         if self.drawn == self.num_batches:
    ...             raise StopIteration
    ...         self.drawn += 1
    ...         seeds = torch.tensor([self.drawn, 10 * self.drawn])
    ...         return hr.MiniBatch.of_seeds(seeds, epoch=self.epoch, index=self.drawn - 1)
    >>> class PairSource(hr.ext.SourceStage):
    ...     name, seed = "pair_source", 7
    ...     def source(self, settings):
    ...         return Pairs()
    >>> loader = PairSource().loader()
    >>> [batch.seeds.tolist() for batch in loader]
    [[1, 10], [2, 20]]
    """

    num_batches: int | None
    """Batches in one epoch; None when unknown beforehand."""

    batch_size: int | None = None
    """Items in a batch of all ranks together, by which a checkpoint counts; None where batches differ in that, or a
    checkpoint counts by something else. A checkpoint is used with the number that it was made with."""

    @property
    def smallest_share(self) -> int | None:
        """The number of seeds in the smallest share of this rank; None if unknown beforehand."""
        return None

    def count(self, epoch: int) -> int | None:
        """Return the number of batches of one epoch, which may differ between epochs; None if unknown."""
        del epoch
        return self.num_batches

    @abstractmethod
    def seek(self, epoch: int, state: dict[str, Any] | None) -> None:
        """Go to the first batch of ``epoch``, or to the position in ``state``.

        ``state`` is a value of :meth:`state`, with the number of batches drawn as ``state["batch"]``.
        """

    @abstractmethod
    def draw(self) -> MiniBatch:
        """Return the next batch of the epoch; raise StopIteration at its end."""

    def state(self) -> dict[str, Any]:
        """Return the values that :meth:`seek` needs to continue, besides the number of batches drawn.

        They are numbers, texts, lists and mappings, for checkpoints.
        """
        return {}

    def saved(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a value of `state` as checkpoints hold it; called for those that are saved alone."""
        return state

    def whole_seeds(self, epoch: int, index: int) -> torch.Tensor:
        """Return the seeds of a batch over all ranks, as one process would draw them, from any position.

        They are in the order of `MiniBatch.seed_slot`, where batches have one. Stages that need more than the share of
        a rank call it, such as `exclude_seed_edges`, from several threads at once.
        """
        del epoch, index
        raise NotImplementedError

    def whole_items(self, epoch: int, index: int) -> torch.Tensor:
        """Return the items of `whole_seeds`, int64[num_seeds]: the `MiniBatch.item_index` of one process.

        Only sources with `SourceStage.seed_edge_ids` need it.
        """
        del epoch, index
        raise NotImplementedError

    def watched(self) -> tuple[Watched, ...]:
        """Return the data that a training loop may write; after a write, batches drawn ahead are drawn again."""
        return ()

    def batch_at(self, epoch: int, index: int) -> MiniBatch:
        """Return a batch, from any position. Only sources with `watched` data need it."""
        del epoch, index
        raise NotImplementedError

    def check_whole_seeds(self) -> None:
        """Refuse a source that has no `whole_seeds`.

        Raises
        ------
        PlanError
            Before any batch is drawn.
        """
        if type(self).whole_seeds is BatchSource.whole_seeds:
            raise PlanError(
                f"expected a source that knows the seeds of all ranks, got {type(self).__name__}, which draws those of "
                "one; use ItemSampler, or give the source a method whole_seeds(epoch, index)"
            )


class NumberedSource(BatchSource):
    """Base of the sources that know each batch by its number: a subclass has `batch_at`, and knows its `count`."""

    _epoch = _next = 0

    def seek(self, epoch: int, state: dict[str, Any] | None) -> None:
        """Go to the batch of the number in ``state``."""
        self._epoch, self._next = epoch, 0 if state is None else int(state["batch"])

    def draw(self) -> MiniBatch:
        """Return the batch of that number, and go to the next one."""
        num_batches = self.count(self._epoch)
        assert num_batches is not None  # see above
        if self._next >= num_batches:
            raise StopIteration
        batch = self.batch_at(self._epoch, self._next)
        self._next += 1
        return batch


class SourceStage(Stage, Plan):
    """A stage that begins a plan. It is itself the shortest plan.

    Attributes
    ----------
    seed
        Seed of all randomness in the plan.
    seed_given
        Whether the user gave the seed. A seed that was taken from torch is replaced by that of rank 0 if a loader takes
        its rank from torch.distributed, or if ranks have a channel. Comparisons of plans ignore it.
    shares_by_rank
        Whether what a source of your own draws is the part of a batch of ``settings.rank`` of ``settings.world_size``
        ranks. On several ranks a source that does not declare it is refused.
    counts_alike
        Whether plans that are compared as equal have the same number of batches on all ranks; otherwise ranks compare
        at every batch.
    """

    seed: int
    seed_given: bool = True
    shares_by_rank: ClassVar[bool] = False
    counts_alike: ClassVar[bool] = False

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stage itself."""
        return (self,)

    @property
    def writes(self) -> frozenset[str]:
        """The fields that `MiniBatch.of_seeds` fills in."""
        return frozenset({"seeds", "seed_index", "item_index", "n_id", "num_sampled_nodes"})

    @property
    def largest_id(self) -> int | None:
        """The largest node id among the seeds of all batches; None if unknown beforehand."""
        return None if self.num_nodes is None else self.num_nodes - 1

    @property
    def mask_size(self) -> int | None:
        """The number of entries of the mask of seeds; None if the seeds were given as ids."""
        return None

    @property
    def num_nodes(self) -> int | None:
        """The number of nodes of the graph; None if the source fits any graph that contains the seeds."""
        return None

    def known_nodes(self) -> tuple[KnownNodes, ...]:
        """Return the nodes that the source knows, by its graph or by their number."""
        known = super().known_nodes()
        return known if known or self.num_nodes is None else (KnownNodes("what it draws from", self.num_nodes),)

    @property
    def boundary(self) -> int | None:
        """The largest number of hops from the seeds to a node of the batch; None for no bound."""
        return None

    @property
    def gives_pairs(self) -> bool:
        """Whether each seed is known to be a pair of nodes, or a group of more nodes."""
        return False

    @property
    def nodes_per_seed(self) -> int | None:
        """The number of nodes of each seed: 1, or 2 for pairs; None if unknown before the first batch."""
        return None

    @property
    def seed_types(self) -> tuple[TypeName, ...]:
        """The types of seeds that were given by type; empty if seeds are ids of the graph."""
        return ()

    def all_seeds(self) -> torch.Tensor | None:
        """Return the seeds of an epoch in any order, int64[n] or int64[n, k]; None if unknown beforehand."""
        return None

    def seeds_per_batch(self, world_size: int) -> int:
        """Return the least number of seeds of a rank in the first batch; 1 if unknown beforehand."""
        del world_size
        return 1

    @property
    def smallest_label(self) -> float | None:
        """The smallest of all labels; None if unknown beforehand."""
        return None

    @property
    def label_range(self) -> LabelRange | None:
        """Facts about all labels, beside the smallest; None if that is unknown beforehand."""
        from headrace.pipeline.data.label_range import LabelRange  # loaded where negatives are drawn

        return None if self.smallest_label is None else LabelRange(self.smallest_label)

    @property
    def gives_labels(self) -> bool:
        """Whether the seeds are known to have labels."""
        return False

    @property
    def seed_times(self) -> torch.Tensor | str | None:
        """The times of all seeds, or the name of their node attribute; None if unknown beforehand."""
        return None

    @property
    def seed_time_dtype(self) -> torch.dtype | None:
        """The dtype of the times of seeds before they were widened; None if unknown.

        Sources that widen times keep it as `_time_dtype`, which is no field: it decides no batch.
        """
        known: torch.dtype | None = vars(self).get("_time_dtype")
        return known

    @property
    def seed_edge_ids(self) -> torch.Tensor | None:
        """The id of the edge that each item is, int64[num_items]; None if items are not known to be edges."""
        return None

    @property
    def gives_no_times(self) -> bool:
        """Whether the seeds are known to have no times."""
        return False

    def own_data(self) -> dict[str, Any]:
        """Return the data that differ between ranks, by name; all other data are the same on all ranks."""
        return {}

    def settle_seed(self) -> None:
        """Check the given seed, or take torch's seed if none was given; for ``__post_init__``."""
        if self.seed is None:
            object.__setattr__(self, "seed", torch.initial_seed())
            object.__setattr__(self, "seed_given", False)
        name = f"{type(self).__name__}: seed"
        object.__setattr__(self, "seed", whole_number(self.seed, name, 0, InputError, LARGEST_SEED))

    @abstractmethod
    def source(self, settings: RunSettings) -> BatchSource:
        """Return the object that draws the batches of this source."""


def source_of(plan: Plan) -> SourceStage:
    """Return the source that begins a plan.

    Raises
    ------
    PlanError
        If the plan does not begin with a source.
    """
    first = plan.stages[0]
    if not isinstance(first, SourceStage):
        raise PlanError(f"a plan begins with a source such as ItemSampler; this one begins with {describe(first)}")
    return first


def check_source(source: SourceStage) -> None:
    """Refuse a source of a user's class that declares what is no number.

    Raises
    ------
    InputError
        Naming the member.
    """
    kind = type(source).__name__
    whole_number(getattr(source, "seed", None), f"{kind}: seed", 0, InputError, LARGEST_SEED)
    for member in ("num_nodes", "largest_id"):
        value = getattr(source, member)
        if value is not None:
            whole_number(value, f"{kind}: {member}", 0, InputError)
