"""Whole clusters of a partition as batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from headrace.ops import InputError, shuffled_range, stream_key
from headrace.ops.random.rng import SHUFFLE
from headrace.pipeline.data import MiniBatch, check_switches, whole_number
from headrace.pipeline.plan import BatchSource, NumberedSource, RunSettings, SourceStage

if TYPE_CHECKING:
    from headrace.pipeline.partition.partition import Partition


@dataclass(frozen=True, eq=False, repr=False)
class ClusterSampler(SourceStage):
    """Make each batch of some whole clusters of a graph (Cluster-GCN, arXiv 1905.07953).

    Every epoch visits each cluster once, in an order given by seed and epoch. The seeds of a batch are all nodes of its
    clusters, cluster by cluster, each in ascending order. Clusters without nodes form no batch. With such clusters
    epochs may differ in their number of batches, so the loader has no length. ``sample_in_subgraph`` then takes the
    edges among these nodes, including edges between the clusters of a batch, and the edges around them within
    `boundary`:

    ===========  ==================================================================================================
    ``0``        edges begin and end in the clusters: a batch is the subgraph that they induce
    ``1, 2, …``  nodes from which the clusters can be reached in that many hops are included, with all edges among them
    ``None``     no bound, as with any other source; any sampler may follow
    ===========  ==================================================================================================

    Clusters have no types. With a boundary a graph with types is refused: pass ``graph.untyped()``. With
    ``boundary=None`` any sampler may follow, and seeds are nodes of all types, by global id.

    With a boundary of as many hops as the model has layers, the nodes of the clusters get the same output as on the
    whole graph.

    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 1, 2, 3, 2], [1, 0, 3, 2, 1], num_nodes=4)
    >>> clusters = hr.Partition.of([0, 0, 1, 1])
    >>> plan = hr.ClusterSampler(clusters, clusters_per_batch=1, shuffle=False).sample_in_subgraph(graph, num_hops=2)
    >>> [(batch.n_id.tolist(), batch.num_sampled_edges) for batch in plan.loader()]
    [([0, 1], (2, 2)), ([2, 3], (2, 2))]

    Parameters
    ----------
    partition
        The cluster of each node: ``Partition.metis(graph, 1500)`` for equal ones, ``Partition.louvain(graph)`` for
        communities, ``Partition.of(labels)`` for your own, of any number and sizes.
    clusters_per_batch
        Clusters in a batch, over all ranks together. Several clusters in a batch keep the links between them, and make
        batches more similar.
    boundary
        The largest number of hops from a node to the clusters, at most the hops of the sampler.
    shuffle
        Whether every epoch forms new groups of clusters.
    drop_last
        Whether a last batch of fewer clusters is left out.
    seed
        As for ``ItemSampler``.

    Raises
    ------
    InputError
        If `partition` is not a partition, or a number is out of range.
    """

    name: ClassVar[str] = "cluster_sampler"
    counts_alike: ClassVar[bool] = True

    partition: Partition
    clusters_per_batch: int = 1
    boundary: int | None = field(default=0, kw_only=True)
    shuffle: bool = field(default=True, kw_only=True)
    drop_last: bool = field(default=False, kw_only=True)
    seed: Any = field(default=None, kw_only=True)  # None or an int; an int once constructed

    def __post_init__(self) -> None:
        from headrace.pipeline.partition.partition import Partition

        if not isinstance(self.partition, Partition):
            raise InputError(
                f"ClusterSampler: expected a Partition, got {type(self.partition).__name__}; pass "
                "hr.Partition.metis(graph, num_parts), or hr.Partition.of(labels) for the cluster of each node"
            )
        for name, least in (("clusters_per_batch", 1), ("boundary", 0)):
            if getattr(self, name) is not None or name == "clusters_per_batch":
                value = whole_number(getattr(self, name), f"ClusterSampler: {name}", least, InputError)
                object.__setattr__(self, name, value)
        check_switches("ClusterSampler", InputError, shuffle=self.shuffle, drop_last=self.drop_last)
        if self.drop_last and self.clusters_per_batch > self.partition.num_parts:
            raise InputError(
                f"ClusterSampler: drop_last leaves no batch: {self.partition.num_parts} clusters are fewer than the "
                f"{self.clusters_per_batch} of a batch; lower clusters_per_batch or set drop_last=False"
            )
        self.settle_seed()

    @property
    def num_nodes(self) -> int | None:
        return self.partition.num_nodes

    def source(self, settings: RunSettings) -> BatchSource:
        return _Clusters(self, settings)


class _Clusters(NumberedSource):
    """Draws the batches of a :class:`ClusterSampler`; each rank takes a contiguous share of a batch's nodes."""

    def __init__(self, stage: ClusterSampler, settings: RunSettings) -> None:
        self._stage = stage
        self._settings = settings
        self._nodes, self._starts = stage.partition.order(), stage.partition.bounds  # cluster by cluster
        self._sizes = self._starts.diff()
        self.batch_size: int = stage.clusters_per_batch
        self._known: tuple[int, Tensor, Tensor] | None = None  # an epoch, its order of clusters, its batches
        self.num_batches: int | None = len(self._batches(0)[1]) if self._has_length() else None
        if self.num_batches == 0:
            raise InputError(
                f"ClusterSampler: expected nodes in the first {stage.clusters_per_batch} clusters or in others of a "
                "whole batch, got none; lower clusters_per_batch or set drop_last=False"
            )

    def _has_length(self) -> bool:
        """Whether all epochs have the same number of batches: no batch is of clusters without nodes by chance."""
        stage = self._stage
        num_empty, num_last = int((self._sizes == 0).sum()), len(self._sizes) % self.batch_size
        smallest = self.batch_size if num_last == 0 or stage.drop_last else num_last
        return not stage.shuffle or self.batch_size == 1 or num_empty < smallest

    def count(self, epoch: int) -> int:
        """Return the number of batches of an epoch."""
        return len(self._batches(epoch)[1]) if self.num_batches is None else self.num_batches

    def batch_at(self, epoch: int, index: int) -> MiniBatch:
        """Return this rank's share of batch ``index`` of ``epoch``."""
        order, batches = self._batches(epoch)
        first = int(batches[index]) * self.batch_size
        nodes = self._nodes_of(order[first : first + self.batch_size])
        rank, world_size = self._settings.rank, self._settings.world_size
        seeds = nodes[len(nodes) * rank // world_size : len(nodes) * (rank + 1) // world_size]
        return MiniBatch.of_seeds(seeds, epoch=epoch, index=index, item_index=seeds, num_global_seeds=len(nodes))

    def _batches(self, epoch: int) -> tuple[Tensor, Tensor]:
        """Return the order of the clusters in an epoch, and the number of each group of them that has a node.

        Returns
        -------
        order : int64[num_clusters]
            Group g is ``order[g * batch_size : (g + 1) * batch_size]``; without those that are dropped.
        batches : int64[num_batches]
        """
        stage, known = self._stage, self._known
        if known is None or known[0] != epoch:
            num_clusters = len(self._sizes)
            order = torch.arange(num_clusters, device="cpu")
            if stage.shuffle:
                key = stream_key(stage.seed, epoch, 0, 0, SHUFFLE)
                order = shuffled_range(num_clusters, 0, num_clusters, key)
            if stage.drop_last:
                order = order[: num_clusters // self.batch_size * self.batch_size]
            before = torch.nn.functional.pad(self._sizes[order].cumsum(0), (1, 0))
            groups = torch.arange(-(-len(order) // self.batch_size) + 1, device="cpu") * self.batch_size
            sizes = before[groups.clamp(max=len(order))].diff()
            known = self._known = epoch, order, sizes.nonzero().reshape(-1)
        return known[1:]

    def _nodes_of(self, clusters: Tensor) -> Tensor:
        """Return the nodes of some clusters, one cluster behind the other."""
        sizes = self._sizes[clusters]
        shifts = self._starts[clusters] - (sizes.cumsum(0) - sizes)
        return self._nodes[torch.repeat_interleave(shifts, sizes) + torch.arange(int(sizes.sum()), device="cpu")]
