"""A set of ids that tells which of its members an id is: 1.4 bits for each id that there may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Words of a block, of which 6 have the bits of 384 ids, and bits of a count: see ``ops/native/graphs/row_ranks.hpp``.
_BLOCK, _WORDS, _COUNT_BITS = 8, 6, 10
_IDS = 64 * _WORDS
#: Blocks whose ids are listed at a time.
_CHUNK = 1 << 13


@dataclass(frozen=True, eq=False, repr=False)
class Ranks:
    """The ids that a part has, among all that there are.

    Attributes
    ----------
    blocks : torch.Tensor
        int64[8 * num_blocks]: see ``ops/native/graphs/row_ranks.hpp``.
    num_ids : int
        Ids that there may be.
    """

    blocks: torch.Tensor
    num_ids: int

    @staticmethod
    def of(ids: Array, num_ids: int) -> Ranks:
        """Return the ranks of ids.

        Parameters
        ----------
        ids : torch.Tensor or numpy.ndarray
            int64[n], in [0, num_ids), ascending.
        num_ids : int
            Ids that there may be.

        Raises
        ------
        InputError
            For ids that do not ascend or are out of range.
        """
        blocks = _native.rank_rows(as_numpy(ids, "ids", stage="Ranks"), num_ids)
        return Ranks(torch.from_numpy(blocks.view(np.int64)), num_ids)

    @property
    def native(self) -> NDArray[np.uint64]:
        """The blocks as kernels on a CPU take them."""
        return self.blocks.numpy().view(np.uint64)

    def find(self, ids: torch.Tensor) -> torch.Tensor:
        """Return which of the ids of the set an id is, int64[n]; -1 for others.

        Raises
        ------
        InputError
            For ids out of range, unless they are on a device.
        """
        if ids.device.type == "cpu":
            found = _native.find_rows(self.native, self.num_ids, ids.to(torch.int64).contiguous().numpy())
            return torch.from_numpy(found)
        return self.find_by_torch(ids)

    def members(self) -> torch.Tensor:
        """Return the ids of the set, int64[n] ascending."""
        words = self.native.reshape(-1, _BLOCK)[:, 2:]
        found = [np.empty(0, dtype=np.int64)]
        for first in range(0, len(words), _CHUNK):
            bits = np.unpackbits(words[first : first + _CHUNK].reshape(-1).view(np.uint8), bitorder="little")
            found.append(np.flatnonzero(bits) + first * _IDS)
        return torch.from_numpy(np.concatenate(found))

    def num_below(self, bound: int) -> int:
        """Return how many ids of the set are below a number from 0 to `num_ids`."""
        if bound == 0:
            return 0
        block = (bound - 1) // _IDS
        before, _, *words = self.native[block * _BLOCK : (block + 1) * _BLOCK].tolist()
        bits = sum(word << (64 * place) for place, word in enumerate(words))
        below: int = before + (bits & ((1 << (bound - block * _IDS)) - 1)).bit_count()
        return below

    def find_by_torch(self, ids: torch.Tensor) -> torch.Tensor:
        """Return what `find` does, on any device, of ids in range."""
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
