"""One hop of a graph with types: what the rule of each relation picks for every destination."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.ops.graphs.ranked_rows import RankedRows
from headrace.ops.reference.hop import Hop, sample_hop

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headrace.ops.sampling.rules import ByRelation
    from headrace.ops.sampling.typed_rows import TypedRows

    IntArray = NDArray[np.int64]


def sample_typed_hop(
    rows: TypedRows,
    indices: IntArray,
    frontier: IntArray,
    rule: ByRelation,
    key: Any,
    *,
    weights: NDArray[Any] | None = None,
    slots: IntArray | None = None,
    times: IntArray | None = None,
    bounds: IntArray | None = None,
    lows: IntArray | None = None,
) -> Hop:
    """Sample each relation by itself, as a graph whose nodes are rows, and put the picks side by side."""
    assert not isinstance(rows.row_ptr, RankedRows)  # of a whole graph
    row_ptr = rows.row_ptr.numpy()
    picks: list[list[tuple[int, int, np.float32]]] = [[] for _ in frontier]
    has_weights = False
    for (first_node, end_node, first_row, stride), one in ranges(rows, rule):
        elements = [i for i, node in enumerate(frontier) if first_node <= node < end_node]
        own = np.array([first_row + (frontier[i] - first_node) * stride for i in elements], np.int64)
        of_elements = {
            name: None if values is None else np.asarray(values)[elements]
            for name, values in (("slots", slots), ("bounds", bounds), ("lows", lows))
        }
        hop = sample_hop(row_ptr, indices, own, one, key, weights=weights, times=times, **of_elements)
        has_weights |= hop.weights is not None
        for place, element in enumerate(elements):
            for e in range(hop.indptr[place], hop.indptr[place + 1]):
                weight = np.float32(1) if hop.weights is None else hop.weights[e]
                picks[element].append((hop.neighbors[e], hop.positions[e], weight))
    flat = [edge for edges in picks for edge in edges]
    return Hop(
        np.cumsum([0, *map(len, picks)]).astype(np.int64),
        np.array([source for source, _, _ in flat], np.int64),
        np.array([position for _, position, _ in flat], np.int64),
        np.array([weight for _, _, weight in flat], np.float32) if has_weights else None,
    )


def ranges(rows: TypedRows, rule: ByRelation) -> list[tuple[tuple[int, int, int, int], Any]]:
    """Return the rows of each relation and node type that it ends in, counted here from the start, with its rule."""
    num_types = len(rows.first_nodes) - 1
    ending = [[r for r, ends in enumerate(rows.relations) if t in ends] for t in range(num_types)]
    first_rows = [0]
    for t in range(num_types):
        size = rows.first_nodes[t + 1] - rows.first_nodes[t]
        first_rows.append(first_rows[-1] + size * max(len(ending[t]), 1))
    found = []
    for r, ends in enumerate(rows.relations):
        for t in ends:
            stride = max(len(ending[t]), 1)
            first = first_rows[t] + ending[t].index(r)
            found.append(((rows.first_nodes[t], rows.first_nodes[t + 1], first, stride), rule.rules[r]))
    return found
