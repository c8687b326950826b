"""A rank's part of a graph that is cut by edges, and who holds the others: what is made once."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from headrace.ops import Hop, NeighborRule, gather_rows, sample_hop
from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.partition.edge_partition import EdgePartition


class Holders(NamedTuple):
    """Which ranks hold in-edges of nodes, as pairs.

    Parameters
    ----------
    rows: int64[num_pairs]
        Places of nodes in the question, ascending.
    ranks: int32[num_pairs]
        Those that hold in-edges of them, ascending for each node.
    """

    rows: Tensor
    ranks: Tensor


class EdgeShard:
    """The edges that a part of an `EdgePartition` owns, by destination, and the routes of the nodes it is master of.

    Parameters
    ----------
    partition
        The owners of edges and the masters of nodes.
    part
        Which part.

    Attributes
    ----------
    masters : Partition
        The master of each node.
    nodes : Tensor
        int64[num_rows], destinations of its edges, ascending.
    indptr : Tensor
        int64[num_rows + 1].
    indices : Tensor
        [num_edges] of the graph's index dtype, sources.
    positions : Tensor
        int64[num_edges], where the edges are in the arrays of the graph, ascending.
    holders_indptr : Tensor
        int64[num_owned + 1].
    holders : Tensor
        int32[num_pairs], for each node whose master this part is, in ascending order, the parts that hold in-edges.
    """

    def __init__(self, partition: EdgePartition, part: int) -> None:
        graph = partition.graph
        self.masters = partition.nodes
        self.part = part
        self.positions = partition.owned(part)
        destinations = torch.searchsorted(graph.indptr, self.positions, right=True) - 1
        self.nodes, degrees = torch.unique_consecutive(destinations, return_counts=True)
        self.indptr = starts_of(degrees)
        self.indices = gather_rows(graph.indices, self.positions)
        present = _rows_of_grid(partition, part)
        pairs = present.nonzero()
        self.holders_indptr = starts_of(present.sum(1))
        columns = partition.num_columns
        self.holders = (pairs[:, 1] * columns + part % columns).to(torch.int32)

    def who_holds(self, nodes: Tensor) -> Holders:
        """Return who holds in-edges of nodes, int64[n], whose master this part is; nobody where there are none."""
        places = self.masters.position(nodes)
        first = self.holders_indptr[places]
        counts = self.holders_indptr[places + 1] - first
        rows = torch.arange(len(nodes), device="cpu").repeat_interleave(counts)
        number = torch.arange(len(rows), device="cpu") - (counts.cumsum(0) - counts)[rows]
        return Holders(rows, self.holders[first[rows] + number])

    def in_edges(self, nodes: Tensor, num_threads: int = 1) -> Hop:
        """Return the in-edges that are here of nodes, int64[n], of which there are some; positions are the graph's."""
        rows = torch.searchsorted(self.nodes, nodes)
        hop = sample_hop(self.indptr, self.indices, rows, NeighborRule(-1), 0, num_threads=num_threads)
        return hop._replace(positions=gather_rows(self.positions, hop.positions, num_threads=num_threads))


_SHARDS: WeakKeyDictionary[EdgePartition, dict[int, EdgeShard]] = WeakKeyDictionary()


def edge_shard(partition: EdgePartition, part: int) -> EdgeShard:
    """Return a part of a partition, made once however many stages and loaders ask for it."""
    shards = _SHARDS.setdefault(partition, {})
    if part not in shards:
        shards[part] = EdgeShard(partition, part)
    return shards[part]


def _rows_of_grid(partition: EdgePartition, part: int) -> Tensor:
    """Return where in-edges of a part's nodes are, all of them in one column of the grid: bool[num_owned, num_rows]."""
    graph, owned = partition.graph, partition.nodes.owned(part)
    everything = sample_hop(graph.indptr, graph.indices, owned, NeighborRule(-1), 0)
    number = torch.arange(len(owned), device="cpu").repeat_interleave(everything.indptr.diff())
    present = torch.zeros((len(owned), partition.num_rows), dtype=torch.bool, device="cpu")
    present[number, partition.nodes.owner(everything.neighbors.long()) // partition.num_columns] = True
    return present
