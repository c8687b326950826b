"""A set of numbers below a bound in an eighth of a byte for each, with ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_ONES = np.array([number.bit_count() for number in range(256)], np.uint8)


class BitSet:
    """Numbers in [0, size).

    Parameters
    ----------
    size
        The bound. The set takes size / 8 bytes, and as much again once `num_below` is called.
    """

    def __init__(self, size: int) -> None:
        self._bytes = np.zeros((size // 64 + 1) * 8, np.uint8)
        self._starts: NDArray[np.int64] | None = None

    def add(self, numbers: NDArray[Any]) -> None:
        """Add some numbers, in any order."""
        if not len(numbers):
            return
        ordered = np.sort(numbers)
        places = ordered >> 3
        firsts = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
        bits = np.left_shift(1, ordered & 7).astype(np.uint8)
        self._bytes[places[firsts]] |= np.bitwise_or.reduceat(bits, firsts)
        self._starts = None

    def has(self, numbers: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which numbers are in the set."""
        found: NDArray[np.bool_] = (self._bytes[numbers >> 3] >> (numbers & 7).astype(np.uint8)) & 1 != 0
        return found

    def num_shared(self, other: BitSet) -> int:
        """Return how many numbers are in this set and in another one of the same bound."""
        return int(_ONES[self._bytes & other._bytes].sum(dtype=np.int64))

    def between(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return which numbers in [start, stop) are in the set: bool[stop - start]."""
        bits = np.unpackbits(self._bytes[start >> 3 : (stop + 7) >> 3], bitorder="little")
        return bits[start & 7 : (start & 7) + stop - start].astype(bool)

    def num_below(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        """Return for each number, which may be the bound itself, how many of the set are smaller."""
        words = self._bytes.view("<u8")
        if self._starts is None:
            of_words = _ONES[self._bytes].reshape(-1, 8).sum(1, dtype=np.int64)
            self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(of_words)])
        places = numbers.astype(np.int64) >> 6
        below = words[places] & (np.left_shift(np.uint64(1), (numbers & 63).astype(np.uint64)) - np.uint64(1))
        within = _ONES[below.astype("<u8").view(np.uint8)].reshape(-1, 8).sum(1, dtype=np.int64)
        found: NDArray[np.int64] = self._starts[places] + within
        return found
