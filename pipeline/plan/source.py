"""What begins a plan: a stage that draws batches of items, and what draws them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch

from headrace.ops.errors import ItemsError, PlanError
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.stage import KnownNodes, Stage, Watched
from headrace.pipeline.plan.text import describe

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch
    from headrace.pipeline.data.type_offsets import TypeName
    from headrace.pipeline.plan.settings import RunSettings

#: Seeds are 64-bit keys of the random streams.
LARGEST_SEED = (1 << 64) - 1


class BatchSource(ABC):
    """Runs a :class:`SourceStage`: yields minibatches in order, and can go to any place among them.

    The place is the number of batches drawn in an epoch, which the loader counts, and what :meth:`state` adds to it.

    >>> import headrace as hr, torch
    >>> class Pairs(hr.BatchSource):
    ...     num_batches = 2
    ...     def seek(self, epoch, state):
    ...         self.epoch, self.drawn = epoch, 0 if state is None else state["batch"]
    ...     def draw(self):
    ...         if self.drawn == self.num_batches:
    ...             raise StopIteration
    ...         self.drawn += 1
    ...         seeds = torch.tensor([self.drawn, 10 * self.drawn])
    ...         return hr.MiniBatch.of_seeds(seeds, epoch=self.epoch, index=self.drawn - 1)
    >>> class PairSource(hr.SourceStage):
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
        """How many seeds the smallest share of this rank has; None when unknown beforehand."""
        return None

    def count(self, epoch: int) -> int | None:
        """Return the number of batches of one epoch, where epochs differ in that; None when unknown."""
        del epoch
        return self.num_batches

    @abstractmethod
    def seek(self, epoch: int, state: dict[str, Any] | None) -> None:
        """Stand before the first batch of ``epoch``, or where ``state`` says.

        ``state`` is what :meth:`state` returned, and ``state["batch"]`` the number of batches drawn until then.
        """

    @abstractmethod
    def draw(self) -> MiniBatch:
        """Return the next batch of the epoch; raise StopIteration at its end."""

    def state(self) -> dict[str, Any]:
        """Return what :meth:`seek` needs, beside the number of batches drawn, to go on behind the last one.

        Numbers, texts, lists and mappings, as checkpoints hold.
        """
        return {}

    def whole_seeds(self, epoch: int, index: int) -> torch.Tensor:
        """Return the seeds of a batch of all ranks together, as one process would draw them, wherever this one stands.

        In the order of `MiniBatch.seed_slot`, where that counts. Needed by stages for which a rank has to know more
        than its share, such as `exclude_seed_edges`; called from several threads at once.
        """
        del epoch, index
        raise NotImplementedError

    def whole_items(self, epoch: int, index: int) -> torch.Tensor:
        """Return the items of `whole_seeds`, int64[num_seeds]: what `MiniBatch.item_index` has of one process.

        Needed of sources with `SourceStage.seed_edge_ids` alone.
        """
        del epoch, index
        raise NotImplementedError

    def watched(self) -> tuple[Watched, ...]:
        """Return what batches are drawn from that a training loop may write: those drawn ahead are drawn again."""
        return ()

    def batch_at(self, epoch: int, index: int) -> MiniBatch:
        """Return a batch, wherever the source stands. Needed of those that are `watched`."""
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


class SourceStage(Stage, Plan):
    """A stage that begins a plan, and by itself is the shortest one.

    Attributes
    ----------
    seed
        Seed of everything random in the plan.
    seed_given
        Whether whoever made the plan named it. A seed that was taken from torch gives way to that of rank 0 where a
        loader takes its rank from torch.distributed, or where ranks have a channel. Counts in no comparison.
    """

    seed: int
    seed_given: bool = True

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stage itself."""
        return (self,)

    @property
    def writes(self) -> frozenset[str]:
        """What `MiniBatch.of_seeds` fills in."""
        return frozenset({"seeds", "seed_index", "item_index", "n_id", "num_sampled_nodes"})

    @property
    def largest_id(self) -> int | None:
        """The largest node id among the seeds of all batches; None if that is not known beforehand."""
        return None if self.num_nodes is None else self.num_nodes - 1

    @property
    def mask_size(self) -> int | None:
        """Entries of the mask that the seeds were given by; None if they were given as ids."""
        return None

    @property
    def num_nodes(self) -> int | None:
        """Nodes of the graph that the batches are made for; None for any graph that has the seeds."""
        return None

    def known_nodes(self) -> tuple[KnownNodes, ...]:
        """Return what the source knows of nodes, by its graph or by their number."""
        known = super().known_nodes()
        return known if known or self.num_nodes is None else (KnownNodes("what it draws from", self.num_nodes),)

    @property
    def boundary(self) -> int | None:
        """How many hops beyond its seeds the nodes of a batch may be; None for any number."""
        return None

    @property
    def gives_pairs(self) -> bool:
        """Whether the seeds are known to be pairs of nodes, or more nodes together."""
        return False

    @property
    def nodes_per_seed(self) -> int | None:
        """How many nodes a seed is known to be: 1, or 2 where seeds are pairs; None if it shows only with a batch."""
        return None

    @property
    def seed_types(self) -> tuple[TypeName, ...]:
        """The types by which the seeds were given; none where they are ids of the graph."""
        return ()

    def all_seeds(self) -> torch.Tensor | None:
        """Return the seeds of an epoch in any order, int64[n] or int64[n, k]; None if not known beforehand."""
        return None

    def seeds_per_batch(self, world_size: int) -> int:
        """Return how many seeds a rank has in a first batch at least; 1 where that is not known beforehand."""
        del world_size
        return 1

    @property
    def smallest_label(self) -> float | None:
        """The smallest of all labels; None if it is not known beforehand."""
        return None

    @property
    def gives_labels(self) -> bool:
        """Whether the seeds are known to come with labels."""
        return False

    @property
    def seed_times(self) -> torch.Tensor | str | None:
        """The times of all seeds, or the name of the node attribute that holds them; None if not known beforehand."""
        return None

    @property
    def seed_edge_ids(self) -> torch.Tensor | None:
        """Which edge of the graph each item is, int64[num_items]; None where items are not known to be edges."""
        return None

    @property
    def gives_no_times(self) -> bool:
        """Whether the seeds are known to come without times."""
        return False

    def own_data(self) -> dict[str, Any]:
        """Return what each rank brings of its own, by name; all else of the source is the same on all ranks."""
        return {}

    def settle_seed(self) -> None:
        """Take torch's seed where none was given, and check the one that was; for ``__post_init__``."""
        if self.seed is None:
            object.__setattr__(self, "seed", torch.initial_seed())
            object.__setattr__(self, "seed_given", False)
        name = f"{type(self).__name__}: seed"
        object.__setattr__(self, "seed", whole_number(self.seed, name, 0, ItemsError, LARGEST_SEED))

    @abstractmethod
    def source(self, settings: RunSettings) -> BatchSource:
        """Return what draws this source's batches."""


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
