"""Entries for hops of graphs with types."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from headrace import ops
from headrace.ops import _native

from fuzz.draw import Draw
from fuzz.entry import Entry, check_rows, values
from fuzz.native import KINDS, fanout, rounds
from fuzz.public import rule
from fuzz.reducer import Liar, reducer


def _relation(draw: Draw, num_nodes: int) -> list[int]:
    """Node and row numbers of a relation, rarely ones that are not there."""
    if draw.chance(0.1):
        return [draw.edge_of_range() for _ in range(4)]
    first = draw.integer(0, num_nodes)
    return [first, draw.integer(first, num_nodes), first, 1]


def _hop_arguments(draw: Draw) -> list[Any]:
    graph, count = draw.graph(), draw.integer(0, 3)
    weights = draw.weights(graph.num_edges) if draw.chance(0.5) else None
    return [
        graph.indptr,
        graph.indices,
        graph.num_nodes,
        [_relation(draw, graph.num_nodes) for _ in range(count)],
        draw.ids(draw.integer(0, 8), graph.num_nodes),
        [draw.one_of(*KINDS) for _ in range(count)],
        [fanout(draw) for _ in range(count)],
        [rounds(draw) for _ in range(count)],
        draw.key(),
        weights,
        draw.threads(),
        reducer(draw),
        draw.chance(0.5),
    ]


def _hop(*arguments: Any) -> Any:
    """Relations and rules are made of their numbers."""
    indptr, indices, num_nodes, relations, frontier, kinds, limits, num_rounds, key, weights, *rest = arguments
    rules = [_native.Rule(*one, weights is not None) for one in zip(kinds, limits, num_rounds, strict=True)]
    made = [_native.Relation(*numbers) for numbers in relations]
    return _native.sample_typed_hop(indptr, indices, num_nodes, made, frontier, rules, key, weights, *rest)


def _check_hop(arguments: list[Any], answer: Any) -> None:
    if isinstance(arguments[11], Liar):
        return
    indptr, neighbors, positions, importance = answer
    check_rows(indptr, len(values(arguments[4])), len(positions))
    assert np.array_equal(values(arguments[1])[values(positions)], values(neighbors))
    assert importance is None or len(importance) == len(positions)


NATIVE_ENTRIES = {
    "Relation.__init__": Entry(_native.Relation, lambda draw: _relation(draw, 9), lambda given, answer: None),
    "sample_typed_hop": Entry(_hop, _hop_arguments, _check_hop, frozenset({6, 7, 10}), aligned=True),
}


def _rows_arguments(draw: Draw) -> list[Any]:
    """A graph whose edges are of one relation, or cut anywhere into two."""
    graph = draw.graph()
    # Billions of edges would be honest work, as nothing else says how many there are.
    indptr = torch.from_numpy(np.clip(graph.indptr, -9, graph.num_edges + 9))
    cut = draw.integer(0, graph.num_edges)
    offsets = [0, graph.num_edges] if draw.chance(0.6) else [0, cut, graph.num_edges]
    nodes = [0, graph.num_nodes] if draw.chance(0.6) else [0, draw.integer(0, graph.num_nodes), graph.num_nodes]
    ends = [tuple(range(len(nodes) - 1))] * (len(offsets) - 1)
    return [indptr, torch.tensor(offsets), None, nodes, ends]


def _check_typed_rows(arguments: list[Any], answer: Any) -> None:
    row_ptr = values(answer.row_ptr)
    assert (np.diff(row_ptr) >= 0).all()
    assert answer.num_rows >= answer.num_nodes
    del arguments


def _public_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    weights = draw.weights(graph.num_edges) if draw.chance(0.5) else None
    frontier = draw.ids(draw.integer(0, 8), graph.num_nodes)
    return [graph.indptr, graph.indices, frontier, [rule(draw)], draw.key(), weights, draw.threads()]


def _public(indptr: Any, indices: Any, frontier: Any, rules: Any, key: Any, weights: Any, num_threads: Any) -> Any:
    rows = ops.TypedRows(torch.from_numpy(indptr), len(indptr) - 1, (0, len(indptr) - 1), ((0,),))
    by_relation = ops.ByRelation(tuple(rules))
    return ops.sample_typed_hop(rows, indices, frontier, by_relation, key, weights=weights, num_threads=num_threads)


def _check_public(arguments: list[Any], hop: Any) -> None:
    check_rows(hop.indptr, len(values(arguments[2])), len(hop.positions))
    assert np.array_equal(values(arguments[1])[values(hop.positions)], values(hop.neighbors))


PUBLIC_ENTRIES = {
    "typed_rows": Entry(ops.typed_rows, _rows_arguments, _check_typed_rows, frozenset({0, 1, 3, 4})),
    "sample_typed_hop": Entry(_public, _public_arguments, _check_public, frozenset({0})),  # of which rows are made here
}
