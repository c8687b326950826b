"""Keys of the masks of dropout where there is no batch to take them from: the same on all ranks."""

from __future__ import annotations

from headrace.ops.random.rng import DROPOUT, stream_key
from headrace.pipeline.models.recomputation import Draws


class DropoutKeys:
    """Keys of the masks of one layer, another one at each call, and the same on all ranks.

    Parameters
    ----------
    seed
        Another one gives other masks.
    number
        Which layer of the model it is.
    """

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number, self.calls = seed, number, 0
        self._draws: Draws[int] = Draws()

    def next(self) -> int:
        """Return the key of this call."""
        return self._draws.of(self._next)

    def _next(self) -> int:
        self.calls += 1
        return stream_key(self.seed, 0, self.calls - 1, self.number, DROPOUT)
