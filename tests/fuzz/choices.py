"""Choices that are read from bytes, which libFuzzer knows how to change."""

from __future__ import annotations

import random


class Choices(random.Random):
    """A source of choices: other bytes are other choices, equal ones the same.

    Where the bytes end, a generator goes on that is seeded with all of them. So a few bytes already stand for a whole
    call, and the more there are the more of it changes piece by piece.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._data = data
        self._position = 0

    def getrandbits(self, k: int) -> int:
        """Of [0, 2**k), from the fewest whole bytes that hold it."""
        stop = self._position + (k + 7) // 8
        if stop > len(self._data):
            self._position = len(self._data)
            return super().getrandbits(k)
        value = int.from_bytes(self._data[self._position : stop], "little")
        self._position = stop
        return value & ((1 << k) - 1)

    def random(self) -> float:
        """Of [0, 1), a multiple of 1/65537, so that sums of such numbers are rounded."""
        return self.getrandbits(16) / 65537
