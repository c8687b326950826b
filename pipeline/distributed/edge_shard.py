"""A rank's part of a graph that is cut by edges, and who holds the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from headrace.ops import Hop, NeighborRule, gather_rows, sample_hop
from headrace.ops.graphs.rows import edge_positions, row_starts, starts_of
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.partition.partition import Partition


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


@dataclass(frozen=True, eq=False, repr=False)
class EdgeShard:
    """The edges that a part of an `EdgePartition` owns, by destination, and the routes of the nodes it is master of.

    Parameters
    ----------
    masters
        The master of each node.
    part
        Which part.
    nodes: int64[num_rows]
        Destinations of its edges, ascending.
    indptr: int64[num_rows + 1]
    indices: int32[num_edges] or int64[num_edges]
        Sources.
    positions: int64[num_edges]
        Where the edges are in the arrays of the graph, ascending.
    holders_indptr: int64[num_own + 1]
    holders: int32[num_pairs]
        For each node whose master this part is, in ascending order, the parts that hold in-edges.
    """

    masters: Partition
    part: int
    nodes: Tensor
    indptr: Tensor
    indices: Tensor
    positions: Tensor
    holders_indptr: Tensor
    holders: Tensor

    @staticmethod
    def of(partition: EdgePartition, part: int) -> EdgeShard:
        """Return a part of a partition."""
        graph, columns = partition.graph, partition.num_columns
        positions = partition.owned(part)
        destinations = torch.searchsorted(graph.indptr, positions, right=True) - 1
        nodes, degrees = torch.unique_consecutive(destinations, return_counts=True)
        present = _rows_of_grid(partition, part)
        return EdgeShard(
            partition.nodes,
            part,
            nodes,
            starts_of(degrees),
            gather_rows(graph.indices, positions),
            positions,
            starts_of(present.sum(1)),
            (present.nonzero()[:, 1] * columns + part % columns).to(torch.int32),
        )

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
        shards[part] = EdgeShard.of(partition, part)
    return shards[part]


def _rows_of_grid(partition: EdgePartition, part: int) -> Tensor:
    """Return where in-edges of a part's nodes are, all of them in one column of the grid: bool[num_owned, num_rows]."""
    graph, owned = partition.graph, partition.nodes.owned(part)
    starts = row_starts(graph.indptr, owned)
    present = torch.zeros((len(owned), partition.num_rows), dtype=torch.bool, device="cpu")
    for piece, positions in edge_positions(graph.indptr, owned, starts):
        numbers = torch.searchsorted(starts, torch.arange(piece.start, piece.stop, device="cpu"), right=True) - 1
        sources = gather_rows(graph.indices, positions).long()
        present[numbers, partition.nodes.owner(sources) // partition.num_columns] = True
    return present
