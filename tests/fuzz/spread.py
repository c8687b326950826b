"""Entries for the functions that send numbers of destinations to their sources."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace import ops
from headrace.ops import _native, reference

from fuzz.draw import Draw
from fuzz.entry import Entry, values


def _chances(draw: Draw, count: int) -> np.ndarray:
    return draw.weights(count).astype(np.float64) if draw.chance(0.2) else np.random.default_rng(1).random(count)


def _sum_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph(large=draw.chance(0.02))
    return [graph.indptr, graph.indices, _chances(draw, max(len(graph.indptr) - 1, 0)), draw.threads()]


def _check_sums(arguments: list[Any], answer: Any) -> None:
    indptr, indices, numbers = map(values, arguments[:3])
    if len(indices) < 1_000:
        expected = reference.spread.sum_to_sources(indptr, indices, numbers)
        assert np.array_equal(answer, expected, equal_nan=True)


def _reach_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    num_nodes = max(len(graph.indptr) - 1, 0)
    frontier, picks = _chances(draw, num_nodes), _chances(draw, num_nodes)
    by_edge = np.random.default_rng(2).random(len(graph.indices), np.float32) if draw.chance(0.3) else None
    order = draw.ids(num_nodes, num_nodes) if by_edge is None and draw.chance(0.5) else None
    return [graph.indptr, graph.indices, frontier, picks, by_edge, order, draw.threads()]


def _check_reached(arguments: list[Any], answer: Any) -> None:
    indptr, indices, frontier, picks, by_edge, order, _ = (
        value if value is None or isinstance(value, int) else values(value) for value in arguments
    )
    if order is None or by_edge is None:  # with both the order alone counts
        with np.errstate(all="ignore"):
            expected = reference.spread.reach_sources(indptr, indices, frontier, picks, by_edge, order)
        assert np.array_equal(answer, expected, equal_nan=True)


def _public_reach(
    indptr: Any, indices: Any, frontier: Any, picks: Any, by_edge: Any, together: Any, threads: Any
) -> Any:
    return ops.reach_sources(
        indptr, indices, frontier, picks, edge_picks=by_edge, together=together, num_threads=threads
    )


def _public_arguments(draw: Draw) -> list[Any]:
    *arrays, by_edge, order, threads = _reach_arguments(draw)
    return [*arrays, by_edge, order is not None, threads]


def _check_public(arguments: list[Any], answer: Any) -> None:
    *arrays, together, _ = arguments
    order = np.argsort(-values(arrays[3]), kind="stable") if together else None
    _check_reached([*arrays, order, 1], answer)


NATIVE_ENTRIES = {
    "sum_to_sources": Entry(_native.sum_to_sources, _sum_arguments, _check_sums, frozenset({3}), aligned=True),
    "reach_sources": Entry(_native.reach_sources, _reach_arguments, _check_reached, frozenset({6}), aligned=True),
}
PUBLIC_ENTRIES = {
    "sum_to_sources": Entry(
        lambda indptr, indices, numbers, threads: ops.sum_to_sources(indptr, indices, numbers, num_threads=threads),
        _sum_arguments,
        _check_sums,
        frozenset({3}),  # hundreds of threads that read all edges each are honest work
    ),
    "reach_sources": Entry(_public_reach, _public_arguments, _check_public, frozenset({5, 6})),
}
