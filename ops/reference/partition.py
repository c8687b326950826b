"""Slow, obvious versions of the partition functions of `headrace.ops`: the oracles of their tests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from headrace.ops.reference.saint import edges_of
from headrace.ops.reference.shuffle import shuffled_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


def stream_partition(
    indptr: IntArray,
    indices: IntArray,
    num_parts: int,
    capacity: int,
    passes: int,
    key: int | None,
) -> list[int]:
    """Owners by linear deterministic greedy; `key` names the order of visits, None is that of ids."""
    num_nodes = len(indptr) - 1
    order = range(num_nodes) if key is None else [int(v) for v in shuffled_range(num_nodes, 0, num_nodes, key)]
    owners: dict[int, int] = {}
    for _ in range(passes):
        for node in order:
            near = Counter(
                owners[int(u)] for u in indices[indptr[node] : indptr[node + 1]] if int(u) in owners and int(u) != node
            )
            owners.pop(node, None)
            sizes = Counter(owners.values())
            # All parts are looked at: most neighbours times room, then fewest nodes, then the first. One that has no
            # room is never the smallest, as not all can be full.
            owners[node] = min(range(num_parts), key=lambda p: (-near[p] * max(capacity - sizes[p], 0), sizes[p], p))
    return [owners[node] for node in range(num_nodes)]


def held_by_parts(indptr: IntArray, indices: IntArray, owners: IntArray, num_columns: int) -> dict[int, set[int]]:
    """Return the nodes that each part has a copy of: its own, and the ends of its edges."""
    held: dict[int, set[int]] = {}
    for node, owner in enumerate(map(int, owners)):
        held.setdefault(owner, set()).add(node)
    for source, destination in edges_of(indptr, indices):
        held.setdefault(edge_part(owners, source, destination, num_columns), set()).update((source, destination))
    return held


def edge_part(owners: IntArray, source: int, destination: int, num_columns: int) -> int:
    """Return the part of an edge: the row of the owner of its source, the column of that of its destination."""
    return int(owners[source]) // num_columns * num_columns + int(owners[destination]) % num_columns
