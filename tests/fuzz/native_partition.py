"""Entries for the functions of the compiled module that partition graphs and count what parts hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.ops import _native, reference

from fuzz.draw import Draw
from fuzz.entry import Entry, values


def _stream_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    num_parts = draw.one_of(0, -1, 1 << 16, 1 << 17) if draw.chance(0.1) else draw.integer(1, 9)
    share = -(-graph.num_nodes // max(num_parts, 1))
    capacity = draw.one_of(share, share + draw.integer(-1, 5), graph.num_nodes, (1 << 63) - 1)
    return [
        graph.indptr,
        graph.indices,
        num_parts,
        capacity,
        0 if draw.chance(0.05) else draw.integer(1, 3),
        draw.chance(0.5),
        draw.key(),
    ]


def _check_stream(arguments: list[Any], answer: Any) -> None:
    indptr, indices, *numbers, shuffle, key = arguments
    num_parts, capacity, passes, key = map(int, (*numbers, key))  # one-element tensors count as integers
    starts, sources = values(indptr), values(indices)
    assert len(answer) == len(starts) - 1
    if num_parts <= 9:
        expected = reference.partition.stream_partition(
            starts, sources, num_parts, capacity, passes, key if shuffle else None
        )
        assert answer.tolist() == expected


def _counts_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    rows, columns = draw.integer(1, 4), draw.integer(1, 4)
    num_parts = draw.one_of(1 << 16, 1 << 17, 0, rows * columns + 1) if draw.chance(0.1) else rows * columns
    owners = draw.ids(max(len(graph.indptr) - 1, 0), rows * columns, np.int32)
    return [graph.indptr, graph.indices, owners, num_parts, columns, draw.chance(0.5)]


def _check_counts(arguments: list[Any], answer: Any) -> None:
    indptr, indices, owners, num_parts, num_columns, want_between = arguments
    num_parts, num_columns = int(num_parts), int(num_columns)
    edges, copies, between, cut = answer
    assert len(edges) == len(copies) == num_parts
    # Rows may leave edges out, as the ends of indptr are not this function's to check.
    starts = values(indptr)
    assert edges.sum() == starts[-1] - starts[0]
    held = reference.partition.held_by_parts(starts, values(indices), values(owners), num_columns)
    assert copies.sum() == sum(map(len, held.values()))
    assert (between is None) != bool(want_between)
    if between is not None:
        matrix = between.reshape(num_parts, num_parts)
        assert matrix.sum() - np.trace(matrix) == cut


ENTRIES = {
    "stream_partition": Entry(
        _native.stream_partition,
        _stream_arguments,
        _check_stream,
        frozenset({4}),  # 2**62 passes would be honest work
        aligned=True,
    ),
    "count_parts": Entry(_native.count_parts, _counts_arguments, _check_counts, aligned=True),
}
