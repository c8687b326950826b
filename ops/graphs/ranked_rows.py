"""The rows of some of many nodes, as a part of a graph has them: no array has an entry for each node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

import numpy as np
import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_numpy, graph_arrays
from headrace.ops.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Words of a block, of which 6 have the bits of 384 ids, and bits of a count: see ``ops/native/graphs/row_ranks.hpp``.
_BLOCK, _WORDS, _COUNT_BITS = 8, 6, 10
_IDS = 64 * _WORDS


@dataclass(frozen=True, eq=False, repr=False)
class RankedRows:
    """Where the in-edges of some nodes are, in the place of an indptr of all: 1.4 bits for each node that there may be.

    Attributes
    ----------
    starts : torch.Tensor
        int64[num_rows + 1], the bounds of the rows that there are, in the order of their nodes. Those of all other
        nodes are empty.
    blocks : torch.Tensor
        int64[8 * num_blocks], which nodes these are: see ``ops/native/graphs/row_ranks.hpp``.
    num_ids : int
        Nodes, with and without a row.
    """

    starts: torch.Tensor
    blocks: torch.Tensor
    num_ids: int

    @staticmethod
    def of(ids: Array, starts: torch.Tensor, num_ids: int) -> RankedRows:
        """Return the rows of nodes.

        Parameters
        ----------
        ids : torch.Tensor or numpy.ndarray
            int64[num_rows], nodes in [0, num_ids), ascending.
        starts : torch.Tensor
            int64[num_rows + 1].
        num_ids : int
            Nodes, with and without a row.

        Raises
        ------
        InputError
            For ids that do not ascend or are out of range, or another number of starts.
        """
        if len(starts) != len(ids) + 1:
            message = f"RankedRows: expected {len(ids) + 1} bounds of rows, got {len(starts)}"
            raise InputError(message)
        blocks = _native.rank_rows(as_numpy(ids, "ids", stage="RankedRows"), num_ids)
        return RankedRows(starts, torch.from_numpy(blocks.view(np.int64)), num_ids)

    @property
    def native(self) -> tuple[NDArray[np.int64], NDArray[np.uint64], int]:
        """What kernels on a CPU take."""
        return self.starts.numpy(), self.blocks.numpy().view(np.uint64), self.num_ids

    def replaced(self, starts: torch.Tensor) -> RankedRows:
        """Return rows of the same nodes with other bounds."""
        return replace(self, starts=starts)

    def find(self, ids: torch.Tensor) -> torch.Tensor:
        """Return which of the rows that there are is a node's, int64[n]; -1 for nodes without a row.

        Raises
        ------
        InputError
            For ids that are not nodes, unless they are on a device.
        """
        if ids.device.type == "cpu":
            found = _native.find_rows(self.native[1], self.num_ids, ids.to(torch.int64).contiguous().numpy())
            return torch.from_numpy(found)
        return self.find_by_torch(ids)

    def find_by_torch(self, ids: torch.Tensor) -> torch.Tensor:
        """Return what `find` does, on any device, of ids that are nodes."""
        block = ids.div(_IDS, rounding_mode="floor") * _BLOCK
        place = ids % _IDS
        word, bit = place // 64, place % 64
        bits = self.blocks[block + 2 + word]
        before = (self.blocks[block + 1] >> (_COUNT_BITS * word)) & ((1 << _COUNT_BITS) - 1)
        below = bits & ((torch.ones_like(bits) << bit) - 1)
        ranks: torch.Tensor = self.blocks[block] + before + _num_bits(below)
        return torch.where(((bits >> bit) & 1).bool(), ranks, torch.full_like(ranks, -1))


def _num_bits(words: torch.Tensor) -> torch.Tensor:
    """Return how many bits of each word, int64[n], are set, by sums of ever more of them."""
    halves = [(words >> shift) & 0xFFFF for shift in (0, 16, 32, 48)]
    total = torch.zeros_like(words)
    for half in halves:
        pairs = half - ((half >> 1) & 0x5555)
        fours = (pairs & 0x3333) + ((pairs >> 2) & 0x3333)
        eights = (fours + (fours >> 4)) & 0x0F0F
        total += (eights + (eights >> 8)) & 0x1F
    return total


def row_arrays(rows: Array | RankedRows, indices: Array, stage: str) -> tuple[_native.Rows, _native.IdArray]:
    """Check the dtypes, lengths and ends of the rows of a graph or of a part, as `graph_arrays` does."""
    if not isinstance(rows, RankedRows):
        return graph_arrays(rows, indices, stage)
    _, sources = graph_arrays(rows.starts, indices, stage)
    return rows.native, sources


@overload
def bounds_of(rows: torch.Tensor | RankedRows) -> torch.Tensor: ...
@overload
def bounds_of(rows: Array | RankedRows) -> Array: ...
def bounds_of(rows: Array | RankedRows) -> Array:
    """Return the bounds of the rows that there are."""
    return rows.starts if isinstance(rows, RankedRows) else rows
