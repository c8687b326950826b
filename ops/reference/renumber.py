"""Slow, obvious versions of `headrace.ops.sampling.compact`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


def compact(seen: IntArray, neighbors: IntArray) -> tuple[IntArray, IntArray]:
    """Return (ids, indices): `seen`, then new ids by first occurrence, and each neighbour's place among them."""
    place = {int(node): i for i, node in enumerate(seen)}
    local = [place.setdefault(int(node), len(place)) for node in neighbors]
    return np.array(list(place), np.int64), np.array(local, np.int64)


def unique_and_inverse(ids: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct ids by first occurrence, and where each id is among them."""
    return compact(np.empty(0, np.int64), ids)
