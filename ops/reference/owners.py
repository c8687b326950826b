"""Slow, obvious versions of `headrace.ops.partition.owners`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.ops.reference.random import MASK64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


def hash_owners(ids: IntArray, num_parts: int) -> IntArray:
    """Scale the upper half of the finalizer of SplitMix64 to the number of parts."""
    owners = []
    for i in ids.tolist():
        mixed = i & MASK64
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK64
        mixed ^= mixed >> 31
        owners.append(((mixed >> 32) * num_parts) >> 32)
    return np.array(owners, dtype=np.int64)


def group_by_owner(ids: IntArray, owners: IntArray, num_parts: int, first: int) -> tuple[IntArray, IntArray, IntArray]:
    """List the ids of part `first`, then those of part 0, of part 1, and so on; where each went; how many in each."""
    listed = owners.tolist()
    parts = [first, *(part for part in range(num_parts) if part != first)]
    order = [i for part in parts for i, owner in enumerate(listed) if owner == part]
    places = [order.index(i) for i in range(len(listed))]
    counts = [listed.count(part) for part in range(num_parts)]
    return ids[np.array(order, dtype=np.int64)], np.array(places, dtype=np.int64), np.array(counts, dtype=np.int64)


def positions_in_parts(owners: IntArray) -> IntArray:
    """Count the nodes before each one that have the same owner."""
    listed = owners.tolist()
    return np.array([listed[:v].count(owner) for v, owner in enumerate(listed)], dtype=np.int64)
