"""Entries of what temporal and disjoint sampling need: rows in order, and the fused sampler in trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.ops import _native

from fuzz.draw import Draw
from fuzz.entry import Entry, check_rows, values
from fuzz.native import KINDS, fanout, rounds


def _order_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph(large=draw.chance(0.01))
    return [graph.indptr, draw.ids(graph.num_edges, 6), draw.threads()]


def _check_order(arguments: list[Any], answer: Any) -> None:
    starts, keys = values(arguments[0]), values(arguments[1])
    order = np.arange(len(keys)) if answer is None else np.asarray(answer)
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    assert np.array_equal(order, np.lexsort((np.arange(len(keys)), keys, rows)))


def _trees_arguments(draw: Draw) -> list[Any]:
    graph, hops = draw.graph(large=draw.chance(0.01)), draw.integer(0, 3)
    num_seeds = draw.integer(0, 8)
    num_trees = num_seeds if draw.chance(0.9) else draw.one_of(num_seeds + 1, 1 << 61, (1 << 64) - 1)
    known = [num_seeds + (draw.integer(0, 2) if draw.chance(0.05) else 0) for _ in range(3)]
    return [
        graph.indptr,
        graph.indices,
        draw.one_of(None, np.arange(graph.num_edges, dtype=draw.one_of(np.int32, np.int64))),
        draw.weights(graph.num_edges) if draw.chance(0.5) else None,
        draw.one_of(0, 1, (1 << 31) - 1, (1 << 32) - 2),
        draw.ids(graph.num_edges, 6) if draw.chance(0.8) else None,
        draw.ids(num_seeds, graph.num_nodes),
        np.arange(num_seeds) if draw.chance(0.9) else draw.ids(num_seeds, max(num_seeds, 1)),
        num_trees,
        *(draw.ids(length, 6) if draw.chance(0.4) else None for length in known),
        [draw.one_of(*KINDS) for _ in range(hops)],
        [fanout(draw) for _ in range(hops)],
        [rounds(draw) for _ in range(hops)],
        [draw.key() for _ in range(hops)],
        draw.chance(0.5),
        draw.chance(0.8),
        draw.threads(),
    ]


def _trees(*arguments: Any) -> Any:
    """Construct and sample, twice: times are argument 5, rules are made of 12 to 14."""
    indptr, indices, edge_ids, weights, first_number, times = arguments[:6]
    sampler = _native.FusedSampler(indptr, indices, edge_ids, weights, first_number=first_number, times=times)
    kinds, limits, num_rounds, *rest = arguments[12:]
    rules = [[_native.Rule(*one, weights is not None)] for one in zip(kinds, limits, num_rounds, strict=True)]
    seeds, trees = arguments[6], arguments[7:12]
    sampler.sample(seeds, rules, *rest, trees=trees)
    return sampler.sample(seeds, rules, *rest, trees=trees)


def _check_trees(arguments: list[Any], answer: Any) -> None:
    n_id, blocks, num_nodes, num_edges, slots = answer
    seeds, of_seeds = values(arguments[6]), values(arguments[7])
    assert np.array_equal(n_id[: len(seeds)], seeds)
    assert np.array_equal(slots[: len(seeds)], of_seeds)
    elements = list(zip(n_id.tolist(), slots.tolist(), strict=True))
    assert len(set(elements)) == len(elements) == sum(num_nodes)
    assert sum(len(indices) for _, indices, _, _, _ in blocks) == sum(num_edges)
    for indptr, indices, edge_ids, weights, num_src in blocks:
        num_dst = len(indptr) - 1
        check_rows(indptr, num_dst, len(indices))
        assert num_dst <= num_src <= len(n_id)
        assert (np.asarray(indices) < num_src).all()
        assert np.array_equal(slots[indices], np.repeat(slots[:num_dst], np.diff(indptr)))
        if edge_ids is not None and arguments[2] is None:
            assert np.array_equal(values(arguments[1])[edge_ids], n_id[indices])
        assert weights is None or len(weights) == len(indices)


NATIVE_ENTRIES = {
    "order_of_rows": Entry(_native.order_of_rows, _order_arguments, _check_order, frozenset({2}), aligned=True),
    "FusedSampler.sample in trees": Entry(
        _trees, _trees_arguments, _check_trees, frozenset({13, 14, 18}), aligned=True
    ),
}
