"""Slow, obvious version of `headrace.ops.sampling.join_hops`: the oracle of its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


def join_hops(
    indptrs: Sequence[IntArray], indices: Sequence[IntArray], edge_ids: Sequence[IntArray]
) -> tuple[list[tuple[int, int, int]], list[list[int]]]:
    """Return (source, destination, id) of every edge that no earlier hop has, and their positions hop by hop."""
    edges: list[tuple[int, int, int]] = []
    positions: list[list[int]] = []
    seen: set[tuple[int, int]] = set()
    for indptr, sources, ids in zip(indptrs, indices, edge_ids, strict=True):
        destinations = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        found = list(zip(map(int, sources), map(int, destinations), map(int, ids), strict=True))
        new = [i for i, (_, destination, edge) in enumerate(found) if (destination, edge) not in seen]
        edges += [found[i] for i in new]
        positions.append(new)
        seen |= {(destination, edge) for _, destination, edge in found}
    return edges, positions
