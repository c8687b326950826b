"""Entries for rows and hops of graphs with types."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from headrace import ops
from headrace.ops import _native
from headrace.ops.reference.typed_rows import typed_rows as oracle_of

from fuzz.draw import MAX_EDGES, Draw
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
    rest += [None] * (8 - len(rest))
    return _native.sample_hop(indptr, indices, frontier, rules, key, weights, *rest, made, num_nodes)


def _check_hop(arguments: list[Any], answer: Any) -> None:
    if isinstance(arguments[11], Liar):
        return
    indptr, neighbors, positions, importance = answer
    check_rows(indptr, len(values(arguments[4])), len(positions))
    assert np.array_equal(values(arguments[1])[values(positions)], values(neighbors))
    assert importance is None or len(importance) == len(positions)


def _rows_arguments(draw: Draw) -> list[Any]:
    """A graph whose edges are of one relation, or cut anywhere into two."""
    graph = draw.graph()
    # Billions of edges would be honest work, as nothing else says how many there are.
    indptr = torch.from_numpy(np.clip(graph.indptr, -9, graph.num_edges + 9))
    cut = draw.integer(0, graph.num_edges)
    offsets = [0, graph.num_edges] if draw.chance(0.6) else [0, cut, graph.num_edges]
    nodes = [0, graph.num_nodes] if draw.chance(0.6) else [0, draw.integer(0, graph.num_nodes), graph.num_nodes]
    ends = [tuple(range(len(nodes) - 1))] * (len(offsets) - 1)
    edge_ids = None if draw.chance(0.4) else draw.ids(graph.num_edges, graph.num_edges, draw.one_of(np.int32, np.int64))
    if edge_ids is not None and draw.chance(0.5):
        edge_ids = np.arange(graph.num_edges, dtype=edge_ids.dtype)
    return [indptr, torch.tensor(offsets), edge_ids, nodes, ends, draw.threads()]


def _native_rows_arguments(draw: Draw) -> list[Any]:
    """As `_rows_arguments`, with arrays for tuples."""
    indptr, offsets, edge_ids, nodes, _, num_threads = _rows_arguments(draw)
    ends = [draw.chance(0.9) for _ in range((len(nodes) - 1) * (len(offsets) - 1))]
    return [indptr.numpy(), edge_ids, offsets.numpy(), np.array(nodes), np.array(ends, bool), num_threads]


def _check_rows_of_types(row_ptr: Any, indptr: Any, offsets: Any, edge_ids: Any, nodes: Any, ends: Any) -> None:
    if values(indptr)[-1] <= 2 * MAX_EDGES:  # damaged arrays may speak of billions of edges
        edge_ids = None if edge_ids is None else values(edge_ids)
        assert np.array_equal(row_ptr, oracle_of(values(indptr), values(offsets), edge_ids, nodes, ends))


def _check_native_rows(arguments: list[Any], row_ptr: Any) -> None:
    indptr, edge_ids, offsets, nodes, ends = arguments[:5]
    table = values(ends).reshape(len(values(nodes)) - 1, len(values(offsets)) - 1)
    relations = [tuple(np.flatnonzero(of_relation).tolist()) for of_relation in table.T]
    _check_rows_of_types(row_ptr, indptr, offsets, edge_ids, values(nodes).tolist(), relations)


NATIVE_ENTRIES = {
    "Relation.__init__": Entry(_native.Relation, lambda draw: _relation(draw, 9), lambda given, answer: None),
    "typed_rows": Entry(_native.typed_rows, _native_rows_arguments, _check_native_rows, aligned=True),
    "sample_hop with types": Entry(_hop, _hop_arguments, _check_hop, frozenset({6, 7, 10}), aligned=True),
}


def _public_rows(*arguments: Any) -> Any:
    return ops.typed_rows(*arguments[:5], num_threads=arguments[5])


def _check_typed_rows(arguments: list[Any], answer: Any) -> None:
    _check_rows_of_types(answer.row_ptr, *arguments[:5])
    assert answer.num_rows >= answer.num_nodes


def _public_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    weights = draw.weights(graph.num_edges) if draw.chance(0.5) else None
    frontier = draw.ids(draw.integer(0, 8), graph.num_nodes)
    return [graph.indptr, graph.indices, frontier, [rule(draw)], draw.key(), weights, draw.threads()]


def _public(indptr: Any, indices: Any, frontier: Any, rules: Any, key: Any, weights: Any, num_threads: Any) -> Any:
    rows = ops.TypedRows(torch.from_numpy(indptr), len(indptr) - 1, (0, len(indptr) - 1), ((0,),))
    by_relation = ops.ByRelation(tuple(rules))
    named = {"rows": rows, "weights": weights, "num_threads": num_threads}
    return ops.sample_hop(rows.row_ptr, indices, frontier, by_relation, key, **named)


def _check_public(arguments: list[Any], hop: Any) -> None:
    check_rows(hop.indptr, len(values(arguments[2])), len(hop.positions))
    assert np.array_equal(values(arguments[1])[values(hop.positions)], values(hop.neighbors))


PUBLIC_ENTRIES = {
    "typed_rows": Entry(_public_rows, _rows_arguments, _check_typed_rows, frozenset({3, 4})),
    "sample_hop with types": Entry(
        _public, _public_arguments, _check_public, frozenset({0})
    ),  # of which rows are made here
}
