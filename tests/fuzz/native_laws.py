"""Entries for the functions of the compiled module that look at whole layers, walk, and draw or add up subgraphs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from headrace.ops import _native, reference

from fuzz.draw import MAX_EDGES, Draw, Graph
from fuzz.entry import REFUSALS, Entry, are_good, check_rows, values
from fuzz.native import fanout
from fuzz.reducer import Liar, reducer


def in_neighbors(indptr: Any, indices: Any, node: int) -> np.ndarray:
    """The sources of the edges into `node`."""
    starts = values(indptr)
    return values(indices)[starts[node] : starts[node + 1]]


# --- layers -----------------------------------------------------------------------------------------------------------


def _frontier_and_weights(draw: Draw, graph: Graph) -> tuple[np.ndarray, np.ndarray | None]:
    weights = draw.weights(graph.num_edges) if draw.chance(0.5) else None
    return draw.ids(draw.integer(0, 8), graph.num_nodes), weights


def _importance_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    frontier, weights = _frontier_and_weights(draw, graph)
    rounds = draw.one_of(0, -2, 1.5, None) if draw.chance(0.05) else draw.one_of(-1, 1, 2, 3)
    return [graph.indptr, graph.indices, frontier, fanout(draw), rounds, weights, draw.threads(), reducer(draw)]


def check_candidates(indptr: Any, indices: Any, frontier: Any, weights: Any, candidates: Any) -> None:
    """Candidates are distinct in-neighbours of the frontier; all of them where no edge can be of weight 0."""
    found = values(candidates)
    assert len(np.unique(found)) == len(found)
    sources = [in_neighbors(indptr, indices, node) for node in values(frontier)]
    every = set(np.concatenate(sources).tolist()) if sources else set()
    assert set(found.tolist()) <= every
    assert weights is not None or len(found) == len(every)


def check_labor(given: tuple[Any, ...], solved: tuple[Any, Any, Any], expected_sizes: list[float]) -> None:
    """Probabilities of the candidates, scales of the destinations, and sizes that never grow."""
    indptr, indices, frontier, weights = given
    candidates, probabilities, scales = solved
    check_candidates(indptr, indices, frontier, weights, candidates)
    assert len(probabilities) == len(candidates)
    assert len(scales) == len(values(frontier))
    if are_good(weights):
        assert ((values(probabilities) > 0) & (values(probabilities) <= 1)).all()
        assert (values(scales) >= 0).all()
        assert all(after <= before * (1 + 1e-9) for before, after in pairwise(expected_sizes))


def _check_importance(arguments: list[Any], answer: Any) -> None:
    indptr, indices, frontier, _, _, weights, _, parts = arguments
    candidates, inverse, scales, expected_sizes = answer
    if not isinstance(parts, Liar):
        check_labor((indptr, indices, frontier, weights), (candidates, 1 / inverse, scales), expected_sizes)


def _ladies_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    frontier, weights = _frontier_and_weights(draw, graph)
    size, poisson = fanout(draw), draw.chance(0.5)
    return [graph.indptr, graph.indices, frontier, size, poisson, draw.key(), weights, draw.threads(), reducer(draw)]


def check_ladies(given: tuple[Any, ...], size: int, poisson: bool, drawn: tuple[Any, Any, Any, Any]) -> None:
    """Scores and probabilities of the candidates; exactly `size` of them drawn, but for Poisson."""
    indptr, indices, frontier, weights = given
    candidates, scores, probabilities, is_drawn = map(values, drawn)
    check_candidates(indptr, indices, frontier, weights, candidates)
    assert len(candidates) == len(scores) == len(probabilities) == len(is_drawn)
    if are_good(weights):
        assert (scores > 0).all()
        assert ((probabilities > 0) & (probabilities <= 1))[is_drawn].all()
        wanted = len(candidates) if size == -1 else min(size, len(candidates))
        assert poisson or is_drawn.sum() == wanted


def _check_ladies(arguments: list[Any], answer: Any) -> None:
    indptr, indices, frontier, size, poisson, _, weights, _, parts = arguments
    candidates, scores, inverse, drawn = answer
    if not isinstance(parts, Liar):
        check_ladies((indptr, indices, frontier, weights), size, poisson, (candidates, scores, 1 / inverse, drawn))


# --- walks ------------------------------------------------------------------------------------------------------------


def weights_and_sums(draw: Draw, graph: Graph) -> list[Any]:
    """Nothing, or weights and running sums of the rows, or what damaged graphs and weights make of them."""
    if draw.chance(0.5):
        return [None, None]
    weights = draw.weights(graph.num_edges)
    if draw.chance(0.2):
        damaged = draw.random.choices([0.0, -1.0, 0.5, 1e300, np.nan, np.inf, -np.inf], k=graph.num_edges // 4 + 1)
        return [weights, np.array(damaged)]
    try:
        return [weights, _native.sum_rows(graph.indptr, weights, 1)]
    except REFUSALS:
        return [weights, np.cumsum(weights, dtype=np.float64)[: graph.num_edges // 4 + 1]]


def length(draw: Draw) -> int:
    """Steps of a walk, rarely more than memory holds or 64 bits count."""
    return draw.one_of((1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64) if draw.chance(0.05) else draw.integer(0, 8)


def _walk_arguments(draw: Draw) -> list[Any]:
    graph, count = draw.graph(), draw.integer(0, 8)
    return [
        graph.indptr,
        graph.indices,
        *weights_and_sums(draw, graph),
        draw.ids(count, graph.num_nodes),
        draw.one_of(None, np.array([draw.random.getrandbits(63) for _ in range(count)], np.int64)),
        length(draw),
        draw.one_of(0, 1 << 31, (1 << 32) - 1, 1 << 32),
        draw.key(),
        draw.threads(),
    ]


def check_walks(indptr: Any, indices: Any, starts: Any, steps: int, walks: Any) -> None:
    """Every step leads to an in-neighbour, back to the start or nowhere, and from nowhere no step leads on."""
    if len(values(starts)) == 0:
        assert len(walks) == 0
        return
    paths = values(walks).reshape(len(values(starts)), steps + 1)
    assert np.array_equal(paths[:, 0], values(starts))
    for path in paths:
        for node, following in pairwise(path):
            if node == -1:
                assert following == -1
            else:
                assert following in (-1, path[0]) or following in in_neighbors(indptr, indices, node)


def _check_walk(arguments: list[Any], answer: Any) -> None:
    indptr, indices, _, _, starts, _, steps, _, _, _ = arguments
    check_walks(indptr, indices, starts, int(steps), answer)


def _pinsage_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [
        graph.indptr,
        graph.indices,
        *weights_and_sums(draw, graph),
        draw.ids(draw.integer(0, 8), graph.num_nodes),
        draw.integer(0, 9),
        draw.integer(0, 6),
        draw.integer(0, 6),
        draw.one_of(0, 1 << 31, (1 << 32) - 1, 1 << 32),
        draw.key(),
        draw.threads(),
    ]


def check_visits(num_nodes: int, frontier: Any, limits: tuple[int, int], visits: tuple[Any, Any, Any]) -> None:
    """No more neighbours and visits than asked for, most visits first, none of the destination itself."""
    num_neighbors, num_steps = limits
    indptr, neighbors, counts = map(values, visits)
    check_rows(indptr, len(values(frontier)), len(neighbors))
    assert ((neighbors >= 0) & (neighbors < num_nodes)).all()
    for node, start, stop in zip(values(frontier), indptr[:-1], indptr[1:], strict=True):
        assert stop - start <= num_neighbors
        assert node not in neighbors[start:stop]
        assert (counts[start:stop] > 0).all()
        assert counts[start:stop].sum() <= num_steps
        assert (np.diff(counts[start:stop]) <= 0).all()


def _check_pinsage(arguments: list[Any], answer: Any) -> None:
    num_neighbors, num_walks, steps = (int(value) for value in arguments[5:8])
    check_visits(len(values(arguments[0])) - 1, arguments[4], (num_neighbors, num_walks * steps), answer)


def _sum_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [graph.indptr, draw.weights(graph.num_edges), draw.threads()]


def check_sums(indptr: Any, weights: Any, answer: Any) -> None:
    """The sums before every fourth edge of rows added up from left to right."""
    given = np.empty(0) if weights is None else values(weights).astype(np.float64)
    right = np.zeros(len(given) // 4 + 1)
    for start, stop in pairwise(values(indptr)):
        for position in range(start // 4 * 4 + 4, stop, 4):
            right[position // 4] = np.cumsum(given[start:position])[-1]
    assert np.array_equal(values(answer), right, equal_nan=True)


# --- subgraphs --------------------------------------------------------------------------------------------------------


def count(draw: Draw) -> Any:
    """A number of draws, rarely one that no memory can hold or that is none."""
    return draw.one_of(1 << 62, 1 << 63, (1 << 64) - 1, -1, 1.5, None) if draw.chance(0.05) else draw.integer(0, 40)


def _induced_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [graph.indptr, graph.indices, draw.unique_ids(graph.num_nodes), draw.threads()]


def check_induced(arguments: list[Any], answer: tuple[Any, Any, Any]) -> None:
    """As the reference has it."""
    expected = reference.saint.induced_subgraph(*map(values, arguments[:3]))
    assert all(np.array_equal(values(got), array) for got, array in zip(answer, expected, strict=True))


def _inverse_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [graph.indptr, graph.indices, draw.integer(1, 2), draw.chance(0.5)]


def _check_inverse(arguments: list[Any], answer: Any) -> None:
    indptr, indices, power, skip_loops = arguments
    expected = np.zeros(len(values(indptr)) - 1)
    for node in range(len(expected)):
        sources = in_neighbors(indptr, indices, node)
        kept = sources[sources != node] if skip_loops else sources
        np.add.at(expected, kept, float(max(len(sources), 1)) ** (-2 if power == 2 else -1))
    assert np.allclose(answer, expected)


def _check_drawn(arguments: list[Any], answer: Any) -> None:
    assert len(answer) == int(arguments[1])
    assert ((answer >= 0) & (answer < len(values(arguments[0])))).all()


def _draw_edges_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    destinations = np.flatnonzero(np.diff(graph.indptr) > 0) if draw.chance(0.8) else draw.ids(5, graph.num_nodes)
    return [graph.indptr, graph.indices, destinations, count(draw), draw.key(), draw.threads()]


def check_edges(indptr: Any, indices: Any, destinations: Any, num_draws: int, edges: Any) -> None:
    """Edges of the graph into the destinations."""
    pairs = values(edges).reshape(-1, 2)
    assert len(pairs) == num_draws
    assert np.isin(pairs[:, 1], values(destinations)).all()
    assert all(source in in_neighbors(indptr, indices, node) for source, node in pairs)


def _check_draw_edges(arguments: list[Any], answer: Any) -> None:
    indptr, indices, destinations, num_draws, _, _ = arguments
    check_edges(indptr, indices, destinations, int(num_draws), answer)


def _weights_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    size = max(len(graph.indptr) - 1, 0)
    touch = np.array([draw.one_of(0.0, 1.0, draw.random.random()) for _ in range(size)])
    degrees = np.array([draw.integer(0, 70) for _ in range(size)], np.int64)
    num_draws = draw.one_of(draw.integer(0, 40), (1 << 63) - 1, (1 << 64) - 1)
    return [graph.indptr, graph.indices, touch, degrees, num_draws, draw.one_of(0, draw.integer(0, 9)), draw.threads()]


def _check_weights(arguments: list[Any], answer: Any) -> None:
    indptr, indices, touch, degrees, num_draws, num_rows, _ = arguments
    assert len(answer) == len(values(indices))
    check_rows(indptr, len(values(degrees)), len(answer))
    sound = ((values(touch) > 0) & (values(touch) <= 1)).all() and (values(degrees) > 0).all()
    if sound and num_draws and not num_rows:
        assert (np.asarray(answer) > 0).all()


# --- rows -------------------------------------------------------------------------------------------------------------


def _scatter_entry(name: str, dtype: Any) -> Entry:
    def call(out: np.ndarray, rows: np.ndarray, ids: Any, num_threads: Any) -> np.ndarray:
        """Addresses and sizes come from arrays that live as long as the call; ids are anything."""
        function = getattr(_native, name)
        function(out.ctypes.data, len(out), out.shape[1], ids, rows.ctypes.data, num_threads)
        return out

    def arguments(draw: Draw) -> list[Any]:
        num_rows, width, number = draw.integer(0, 20), draw.one_of(0, 1, 3, 16, 64), draw.integer(0, MAX_EDGES)
        # Twice the room, as damaged ids may be up to twice as many and one more.
        room = 2 * number + 10
        return [
            np.zeros((num_rows, width), dtype),
            np.arange(room * width, dtype=dtype).reshape(room, width),
            draw.ids(number, num_rows, draw.one_of(np.int32, np.int64)),
            draw.threads(),
        ]

    def check(given: list[Any], answer: Any) -> None:
        ids = values(given[2])
        expected = reference.scatter_add_rows(np.zeros_like(answer), ids, given[1][: len(ids)])
        assert np.array_equal(answer, expected)

    return Entry(call, arguments, check, frozenset({0, 1, 3}), aligned=True)


ENTRIES = {
    "labor_importance": Entry(
        _native.labor_importance,
        _importance_arguments,
        _check_importance,
        frozenset({3, 4, 6}),  # 2**62 rounds would be honest work
        aligned=True,
    ),
    "draw_ladies": Entry(_native.draw_ladies, _ladies_arguments, _check_ladies, frozenset({3, 7}), aligned=True),
    "random_walk": Entry(_native.random_walk, _walk_arguments, _check_walk, frozenset({6, 9}), aligned=True),
    "pinsage_neighbors": Entry(
        _native.pinsage_neighbors, _pinsage_arguments, _check_pinsage, frozenset({6, 7, 10}), aligned=True
    ),
    "sum_rows": Entry(
        _native.sum_rows,
        _sum_arguments,
        lambda given, answer: check_sums(given[0], given[1], answer),
        frozenset({2}),
        aligned=True,
    ),
    "induced_subgraph": Entry(
        _native.induced_subgraph, _induced_arguments, check_induced, frozenset({3}), aligned=True
    ),
    "sum_inverse_degrees": Entry(_native.sum_inverse_degrees, _inverse_arguments, _check_inverse, aligned=True),
    "draw_by_weight": Entry(
        _native.draw_by_weight,
        lambda draw: [
            np.cumsum(draw.weights(draw.integer(0, 9)), dtype=np.float64),
            count(draw),
            draw.key(),
            draw.threads(),
        ],
        _check_drawn,
        frozenset({1, 3}),
        aligned=True,
    ),
    "draw_edges": Entry(_native.draw_edges, _draw_edges_arguments, _check_draw_edges, frozenset({3, 5}), aligned=True),
    "saint_weights": Entry(_native.saint_weights, _weights_arguments, _check_weights, frozenset({6}), aligned=True),
    "scatter_add_float32": _scatter_entry("scatter_add_float32", np.float32),
    "scatter_add_float64": _scatter_entry("scatter_add_float64", np.float64),
}
