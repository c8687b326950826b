"""Blocks whose destinations hear themselves, once each."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headrace.ops.aggregate.transpose import Transposed, transpose_csc
from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.data.block import Block


@dataclass(frozen=True, eq=False)
class Looped:
    """The edges of a block without those from a node to itself, and behind those of each destination one to itself.

    Attributes
    ----------
    indptr : int64[num_dst + 1]
    indices : int32 or int64[num_looped]
    origin : int64[num_looped]
        The edge of the block that it was; num_edges + i for the one from destination i to itself.
    num_src : int
    kept_indptr : int64[num_dst + 1]
        Rows of the edges without the new ones.
    kept : int64[num_kept]
        Those edges in the block.
    """

    indptr: Tensor
    indices: Tensor
    origin: Tensor
    num_src: int
    kept_indptr: Tensor
    kept: Tensor

    @cached_property
    def transposed(self) -> Transposed:
        """The same by source, made once."""
        return transpose_csc(self.indptr, self.indices, self.num_src, num_threads=torch.get_num_threads())


_LOOPED: weakref.WeakKeyDictionary[Block, Looped] = weakref.WeakKeyDictionary()


def destinations_of(block: Block) -> Tensor:
    """Return the destination of each edge, of the dtype of `indices`."""
    rows = torch.arange(block.num_dst, dtype=block.indices.dtype, device=block.indices.device)
    return rows.repeat_interleave(block.indptr.diff(), output_size=block.num_edges)


def with_self_loops(block: Block) -> Looped:
    """Return the edges of a block with one from each destination to itself; made once for a block."""
    found = _LOOPED.get(block)
    if found is None:
        found = _LOOPED[block] = _looped(block)
    return found


def _looped(block: Block) -> Looped:
    device = block.indices.device
    destinations = destinations_of(block)
    kept = block.indices != destinations
    counts = starts_of(kept)
    kept_indptr = counts[block.indptr]
    number = torch.arange(block.num_dst + 1, device=device)
    indptr = kept_indptr + number
    num_looped = int(indptr[-1])
    # Kept edges move by as many places as there are destinations before theirs.
    edges = kept.nonzero()[:, 0]
    places = counts[edges] + destinations[edges]
    indices = torch.empty(num_looped, dtype=block.indices.dtype, device=device)
    origin = torch.empty(num_looped, dtype=torch.int64, device=device)
    indices[places], origin[places] = block.indices[edges], edges
    last = indptr[1:] - 1
    indices[last], origin[last] = number[:-1].to(indices.dtype), block.num_edges + number[:-1]
    return Looped(indptr, indices, origin, block.num_src, kept_indptr, edges)
