"""The in-edges of a rank's nodes, cut by the owner of the source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.ops import Transposed, group_by_owner, transpose_csc
from headrace.ops.forks import cached_property
from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.distributed.graph_shard import GraphShard

#: Who needs so large a share of a rank's rows gets all of them: they are sent as they are, without a copy.
ALMOST_ALL = 15 / 16


@dataclass(frozen=True, eq=False, repr=False)
class Shard:
    """The edges whose sources one rank owns, in CSC form over all destinations of this rank.

    Parameters
    ----------
    owner
        The rank that owns the sources.
    num_sources
        Rows that come from there; all rows, of this rank itself.
    indptr: int64[num_dst + 1]
    indices: int32[n] or int64[n]
        The row of each edge's source, among those that come.
    positions: int32[n] or int64[n]
        Where each edge is among all those of this rank.
    """

    owner: int
    num_sources: int
    indptr: Tensor
    indices: Tensor
    positions: Tensor

    @cached_property
    def transposed(self) -> Transposed:
        """The edges by source, with their positions among all those of this rank; made when a gradient needs it."""
        back = transpose_csc(self.indptr, self.indices, self.num_sources, num_threads=torch.get_num_threads())
        return Transposed(back.indptr, back.indices, self.positions[back.positions.long()].to(back.indices.dtype))

    @cached_property
    def destinations(self) -> Tensor:
        """The destination of each edge, int64[n]."""
        rows = torch.arange(len(self.indptr) - 1, device=self.indptr.device)
        return rows.repeat_interleave(self.indptr.diff(), output_size=len(self.indices))

    def map(self, of_tensor: Callable[[Tensor], Tensor]) -> Shard:
        """Return the shard with a function applied to its tensors."""
        arrays = of_tensor(self.indptr), of_tensor(self.indices), of_tensor(self.positions)
        return Shard(self.owner, self.num_sources, *arrays)


def cut(graph: GraphShard) -> tuple[tuple[Shard, ...], tuple[Tensor, ...]]:
    """Cut the edges of a rank's nodes by the owner of the source.

    Returns
    -------
    shards
        One for each rank.
    wanted
        For each rank those of its nodes whose rows this one needs, int64, ascending; none of this rank's own, which
        are at hand.
    """
    partition, rank = graph.partition, graph.part
    degrees = graph.indptr.diff()
    destinations = torch.arange(len(degrees), device="cpu").repeat_interleave(degrees)
    sources = graph.indices.long()
    grouped = group_by_owner(torch.arange(len(sources), device="cpu"), partition.owner(sources), partition.num_parts)
    shards, wanted = [], []
    stop = 0
    for owner, count in enumerate(grouped.counts.tolist()):
        start, stop = stop, stop + count
        positions = grouped.ids[start:stop]
        nodes = sources[positions]
        if owner == rank:
            asked, num_sources, indices = nodes[:0], len(degrees), partition.position(nodes)
        else:
            asked, size = torch.unique(nodes), partition.sizes[owner]
            if ALMOST_ALL * size <= len(asked) < size:
                asked = partition.owned(owner)
            num_sources, indices = len(asked), torch.searchsorted(asked, nodes)
        shards.append(csc(owner, num_sources, indices, destinations[positions], len(degrees), positions, len(sources)))
        wanted.append(asked)
    return tuple(shards), tuple(wanted)


def csc(
    owner: int, num_sources: int, indices: Tensor, destinations: Tensor, num_dst: int, positions: Tensor, num_edges: int
) -> Shard:
    """Return a shard of edges that are in the order of their destinations; `num_edges` bounds their positions."""
    indptr = starts_of(torch.bincount(destinations, minlength=num_dst))
    # One dtype, as kernels want it.
    fits = max(num_sources, num_dst, num_edges) <= torch.iinfo(torch.int32).max
    dtype = torch.int32 if fits else torch.int64
    return Shard(owner, num_sources, indptr, indices.to(dtype), positions.to(dtype))
