"""Entries for joined hops, of the compiled module and of headrace.ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace import ops
from headrace.ops import _native, reference

from fuzz.draw import Draw
from fuzz.entry import Entry, values


def _arguments(draw: Draw) -> list[Any]:
    graphs = [draw.graph() for _ in range(draw.integer(0, 3))]
    ids = [draw.ids(graph.num_edges, draw.one_of(1, 9, 1 << 40)) for graph in graphs]
    given = None if len(graphs) == 1 and draw.chance(0.5) else ids
    return [[graph.indptr for graph in graphs], [graph.indices for graph in graphs], given]


def _check(arguments: list[Any], joined: tuple[Any, Any, Any, Any]) -> None:
    indptrs, indices, edge_ids = (None if given is None else list(map(values, given)) for given in arguments)
    assert indptrs is not None
    assert indices is not None
    known = [np.arange(len(one)) for one in indices] if edge_ids is None else edge_ids
    edges, positions = reference.join_hops.join_hops(indptrs, indices, known)
    edge_index, ids, kept, num_checked = joined
    expected = np.array(edges, np.int64).reshape(-1, 3).T
    assert np.array_equal(values(edge_index).reshape(2, -1), expected[:2])
    assert (ids is None) == (edge_ids is None)
    assert ids is None or np.array_equal(values(ids), expected[2])
    for sources, some, checked, right in zip(indices, kept, num_checked, positions, strict=True):
        assert [*values(some), *range(checked, len(sources))] == right


NATIVE_ENTRIES = {"join_hops": Entry(_native.join_hops, _arguments, _check, aligned=True)}
PUBLIC_ENTRIES = {
    "join_hops": Entry(
        ops.join_hops,
        _arguments,
        lambda given, answer: _check(given, (answer.edge_index, answer.edge_ids, answer.kept, answer.num_checked)),
    )
}
