"""Where the rows of a graph with types begin."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


def typed_rows(
    indptr: IntArray,
    relation_offsets: IntArray,
    edge_ids: IntArray | None,
    first_nodes: Sequence[int],
    relations: Sequence[tuple[int, ...]],
) -> IntArray:
    """Count the edges of each node by relation; a ValueError for edges that are out of order, or end elsewhere."""
    ids = np.arange(indptr[-1]) if edge_ids is None else edge_ids
    found = [bisect_right(relation_offsets.tolist(), edge) - 1 for edge in ids.tolist()]
    if any(not 0 <= relation < len(relations) for relation in found):
        raise ValueError("beyond")
    types = [bisect_right(first_nodes, node) - 1 for node in range(len(indptr) - 1)]
    for node, node_type in enumerate(types):
        for position in range(indptr[node], indptr[node + 1]):
            if node_type not in relations[found[position]]:
                message = f"edge {ids[position]} of relation {found[position]} ends in node {node}"
                raise ValueError(message)
    counts = []
    for node, node_type in enumerate(types):
        own = found[indptr[node] : indptr[node + 1]]
        if own != sorted(own):
            raise ValueError("sorted")
        ending = [relation for relation, ends in enumerate(relations) if node_type in ends]
        counts += [own.count(relation) for relation in ending] or [0]
    return np.array([0, *np.cumsum(counts, dtype=np.int64)], np.int64)
