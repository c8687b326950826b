"""By which randomness a hop picks."""

from __future__ import annotations

from typing import NamedTuple


class Variates(NamedTuple):
    """The stream key of a hop, and where LABOR blends variates the second one, with the cosine and sine of the turn."""

    key: int
    next_key: int = 0
    blends: bool = False
    cosine: float = 1.0
    sine: float = 0.0
