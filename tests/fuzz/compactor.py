"""Entries for the renumbering of one graph's nodes, native and public."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace import ops
from headrace.ops import _native

from fuzz.draw import MAX_EDGES, Draw
from fuzz.entry import Entry, check_compact

NUM_NODES = 40


def _arguments(draw: Draw) -> list[Any]:
    """The number of nodes, where their running numbers begin, slots; then ids."""
    neighbors = draw.ids(draw.integer(0, MAX_EDGES), NUM_NODES, draw.one_of(np.int32, np.int64))
    first_number, most_slots = draw.one_of(0, 1, (1 << 31) - 5, 1 << 31), draw.one_of(0, NUM_NODES)
    return [NUM_NODES, first_number, most_slots, draw.unique_ids(NUM_NODES), neighbors]


def _native_compact(*arguments: Any) -> Any:
    compactor = _native.Compactor(*arguments[:3])
    compactor.compact(*arguments[3:])
    return compactor.compact(*arguments[3:])  # the second call finds the node map used


def _public_compact(num_nodes: Any, seen: Any, neighbors: Any) -> Any:
    compactor = ops.Compactor(num_nodes)
    compactor.compact(seen, neighbors)
    return compactor.compact(seen, neighbors)


def _public_arguments(draw: Draw) -> list[Any]:
    arguments = _arguments(draw)
    return [arguments[0], *arguments[3:]]


# 2**27 nodes would be honest work.
NATIVE_ENTRIES = {
    "Compactor.__init__": Entry(
        _native.Compactor,
        lambda draw: _arguments(draw)[:3],
        lambda given, answer: None,
        frozenset({0}),
    ),
    "Compactor.scratch_bytes": Entry(
        lambda *arguments: _native.Compactor(*arguments).scratch_bytes(),
        lambda draw: _arguments(draw)[:3],
        lambda given, answer: None,
        frozenset({0}),
    ),
    "Compactor.compact": Entry(
        _native_compact,
        _arguments,
        lambda given, answer: check_compact(*given[3:], *answer),
        frozenset({0}),
        aligned=True,
    ),
}
PUBLIC_ENTRIES = {
    "Compactor": Entry(
        _public_compact,
        _public_arguments,
        lambda given, answer: check_compact(*given[1:], answer.ids, answer.indices),
        frozenset({0}),
    ),
}
