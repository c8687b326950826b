"""By which randomness a hop picks."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from headrace.cuda.backend import word_of


class Variates(NamedTuple):
    """The stream key of a hop, and where LABOR blends variates the second one, with the cosine and sine of the turn."""

    key: int
    next_key: int = 0
    blends: bool = False
    cosine: float = 1.0
    sine: float = 0.0

    @property
    def words(self) -> tuple[int, int, bool, int, int]:
        """What kernels take of them."""
        return self.key, self.next_key, self.blends, _bits(self.cosine), _bits(self.sine)


_bits = lru_cache(maxsize=64)(word_of)  # of a few turns, which each hop of a batch asks for
