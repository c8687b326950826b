"""What a batch becomes when negatives are added to its pairs: their shares, and where in a graph they are drawn."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from headrace.ops import InputError, unique_and_inverse
from headrace.pipeline.data import GraphView, MiniBatch, node_types_of
from headrace.pipeline.data.label_range import are_zero, cannot_increase
from headrace.pipeline.plan.settings import RunSettings


class Share(NamedTuple):
    """The negatives of some pairs of a batch: all have equally many, but for one more of the first pairs of the batch.

    Parameters
    ----------
    total
        Negatives of the whole batch.
    num_pairs
        Its pairs.
    first, num_own
        Which of these they are.
    """

    total: int
    num_pairs: int
    first: int
    num_own: int

    def before(self, pair: int) -> int:
        """Return how many negatives the pairs before one have."""
        least, more = divmod(self.total, max(self.num_pairs, 1))
        return pair * least + min(pair, more)

    @property
    def num_negatives(self) -> int:
        """Negatives of these pairs."""
        return self.before(self.first + self.num_own) - self.before(self.first)

    def counts(self, device: torch.device) -> Tensor:
        """Return how many negatives each pair has, int64[num_own]."""
        least, more = divmod(self.total, max(self.num_pairs, 1))
        return least + (torch.arange(self.first, self.first + self.num_own, device=device) < more).long()

    def owners(self, device: torch.device) -> Tensor:
        """Return which of the pairs each negative belongs to, int64[num_negatives], ascending."""
        least, more = divmod(self.total, max(self.num_pairs, 1))
        before = self.before(self.first)
        places = torch.arange(before, before + self.num_negatives, device=device)
        longer = self.before(more)  # negatives of pairs that have one more
        of_others = more + torch.div(places - longer, max(least, 1), rounding_mode="floor")
        of_longer = torch.div(places, least + 1, rounding_mode="floor")
        return torch.where(places < longer, of_longer, of_others) - self.first


def first_of_share(batch: MiniBatch, settings: RunSettings) -> int:
    """Return where the pairs of this rank begin in the batch, of which ranks take shares one behind the other.

    Raises
    ------
    InputError
        If the rank has others than its share.
    """
    if settings.rank_items and batch.seed_slot is not None:  # ranks bring their own, one behind the other as well
        return int(batch.seed_slot[0]) if batch.num_seeds else 0
    size, rank, world_size = batch.num_global_seeds, settings.rank, settings.world_size
    first = size * rank // world_size
    if batch.num_seeds != size * (rank + 1) // world_size - first:
        raise InputError(
            f"sample_uniform_negative: expected {size * (rank + 1) // world_size - first} of the batch's {size} pairs "
            f"on rank {rank} of {world_size}, got {batch.num_seeds}; negatives are drawn by a pair's place in the "
            "batch, of which each rank has an even share"
        )
    return first


def pair_of_trees(num_pairs: int, num_trees: int, device: torch.device) -> Tensor:
    """Return the positive pair that each tree is asked about, int64[num_trees].

    The first trees are those of the pairs; behind them are those of the negatives of the first pair, then of the
    second, and so on.
    """
    of_negatives = Share(num_trees - num_pairs, num_pairs, 0, num_pairs).owners(device)
    return torch.cat([torch.arange(num_pairs, device=device), of_negatives])


def in_graph_ids(graph: GraphView, pairs: Tensor) -> Tensor:
    """Return pairs in the ids that the graph has inside."""
    return graph.to_graph_ids(pairs.flatten()).view_as(pairs)


def with_seeds(batch: MiniBatch, seeds: Tensor, **changes: Any) -> MiniBatch:
    """Return a batch, not yet sampled, with other seeds."""
    unique, inverse = unique_and_inverse(seeds.flatten())
    return batch.replace(
        seeds=seeds, seed_index=inverse.view_as(seeds), n_id=unique, num_sampled_nodes=(len(unique),), **changes
    )


def known_of_all(batch: MiniBatch, share: Share, owners: Tensor) -> dict[str, Any]:
    """Return what is known of a batch's pairs, and behind them of negatives: they have the types and times of theirs.

    Parameters
    ----------
    batch
        With positive pairs.
    share
        Which negatives these have.
    owners: int64[num_negatives]
        The pair of each.
    """
    known: dict[str, Any] = {}
    if batch.link_types is not None:
        known["link_types"] = batch.link_types.with_negatives(owners)
    if batch.seed_time is not None:
        known["seed_time"] = torch.cat([batch.seed_time, batch.seed_time[owners]])
    if batch.seed_slot is not None:
        first = batch.num_global_seeds + share.before(share.first)
        own = torch.arange(first, first + share.num_negatives, device=owners.device)
        known["seed_slot"] = torch.cat([batch.seed_slot, own])
    return known


def ranges_of(graph: GraphView, nodes: Tensor) -> list[tuple[tuple[int, int], Tensor]]:
    """Return the range of nodes of each type that is there, with the places where it is."""
    node_types = node_types_of(graph)
    bounds, types = node_types.offsets, node_types.numbers_of(nodes)
    present = sorted(set(types.tolist()))
    return [((int(bounds[one]), int(bounds[one + 1])), (types == one).nonzero().squeeze(1)) for one in present]


def graph_weights(graph: GraphView, weights: Any) -> Any:
    """Return weights in the order in which the graph has its nodes."""
    if not isinstance(weights, Tensor) or graph.node_ids is None:
        return weights
    return weights[graph.to_original_ids(torch.arange(graph.num_nodes, device="cpu"))]


def total_weight(graph: GraphView, weights: Any, first: int, last: int) -> float:
    """Return the sum of weights of a range of nodes."""
    if weights is None:
        return last - first
    if isinstance(weights, str):
        return int(graph.indptr[last] - graph.indptr[first])
    return float(weights[first:last].sum())


def labels_increase(settings: RunSettings) -> bool:
    """Whether labels of items increase by one, as the smallest of all ranks is 0 or unknown.

    Raises
    ------
    InputError
        If the label of an item would be that of negatives, or leave its dtype; on all ranks alike.
    """
    source = settings.source
    of_ranks = settings.rank_labels or (None if source is None else source.label_range,)
    known = [one for one in of_ranks if one is not None]
    # As torch finds it in the labels of all, NaN included; unknown labels are taken to begin at 0.
    smallest = float(torch.tensor([one.smallest for one in known] or [0], dtype=torch.float64, device="cpu").min())
    if smallest == 0 and any(one.is_full for one in known):
        raise InputError(
            "sample_uniform_negative: expected labels that can increase by one, as they begin at 0, the class of "
            "negatives, got the largest number of their dtype; give them a wider dtype, such as labels.long()"
        )
    if smallest != 0 and any(one.has_zero for one in known):
        raise InputError(
            "sample_uniform_negative: expected labels that begin at 0, and then increase by one, or of which none is "
            f"0, the class of negatives, got 0 among labels whose smallest is {smallest:g}; give classes from 0 on"
        )
    return smallest == 0


def labels_with_negatives(
    y: Tensor | None, num_positives: int, num_negatives: int, device: torch.device, *, shifts: bool
) -> Tensor:
    """Return the labels of positive and negative pairs, which are on a device; see the class.

    Raises
    ------
    InputError
        If a label is one that was not there when `labels_increase` decided, and would be that of negatives.
    """
    if y is None:
        return (torch.arange(num_positives + num_negatives, device=device) < num_positives).float()
    positive = y + 1 if shifts else y
    refused = are_zero(positive) | cannot_increase(y) if shifts else are_zero(positive)
    if bool(refused.any()):
        expected = "from 0 to below the largest of their dtype, which increase by one" if shifts else "other than 0"
        raise InputError(
            f"sample_uniform_negative: expected labels {expected}, as those of the items were when the loader was made "
            f"and 0 is the class of negatives, got {y[refused][0].tolist()}; make a new loader where labels were "
            "written that begin elsewhere"
        )
    return torch.cat([positive, positive.new_zeros(num_negatives, *y.shape[1:])])
