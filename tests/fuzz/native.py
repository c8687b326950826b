"""Entries for the functions of the compiled module, called directly."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from headrace.ops import _native, reference
from headrace.ops._arrays import MAX_THREADS

from fuzz.draw import LARGE_EDGES, LARGE_NODES, MAX_EDGES, Draw
from fuzz.entry import Entry, check_compact, check_importance, check_rows, values
from fuzz.links import check_excluded, excluded
from fuzz.reducer import Liar, reducer

KINDS = list(_native.rule_traits())


def fanout(draw: Draw) -> Any:
    """A fan-out, rarely one that no memory can hold or that is none: 2**31 draws would be honest work."""
    if draw.chance(0.05):
        return draw.one_of(1 << 62, (1 << 63) - 1, -2, -(1 << 63), 1 << 64, 1.5, None, "1")
    return draw.integer(-1, MAX_EDGES + 5)


def rounds(draw: Draw) -> int:
    """Rounds of importance, rarely none; 2**62 of them would be honest work."""
    return draw.one_of(0, -2) if draw.chance(0.05) else draw.one_of(-1, 1, 2, 3)


# --- randomness -------------------------------------------------------------------------------------------------------


def _check_philox(arguments: list[Any], answer: Any) -> None:
    counter, key = arguments
    assert tuple(answer) == reference.philox4x32([int(word) for word in counter], [int(word) for word in key])


def _check_stream_key(arguments: list[Any], answer: Any) -> None:
    assert answer == reference.stream_key(*(int(value) for value in arguments))


def _check_words(arguments: list[Any], answer: Any) -> None:
    assert len(answer) == int(arguments[2])


def _check_bounded(arguments: list[Any], answer: Any) -> None:
    bound, count = int(arguments[2]), int(arguments[3])
    assert len(answer) == count
    assert all(int(value) < max(bound, 1) for value in answer)


def _range_arguments(draw: Draw) -> list[Any]:
    num_items = draw.one_of(draw.integer(0, 50), draw.integer(0, 1 << 62))
    start = draw.integer(0, num_items)
    return [num_items, start, min(num_items, start + draw.integer(0, 20)), draw.key()]


def check_range(arguments: list[Any], answer: Any) -> None:
    """Distinct items, as many as positions were asked for."""
    num_items, start, stop = (int(value) for value in arguments[:3])
    items = values(answer)
    assert len(np.unique(items)) == len(items) == stop - start
    assert ((items >= 0) & (items < num_items)).all()


# --- graphs -----------------------------------------------------------------------------------------------------------


def edge_list_arguments(draw: Draw) -> list[Any]:
    """src, dst, num_nodes, num_threads; 2**32 nodes would be honest work."""
    num_nodes, count = draw.integer(0, 12), draw.integer(0, MAX_EDGES)
    if draw.chance(0.01):
        num_nodes, count = LARGE_NODES, LARGE_EDGES
    dtype = draw.one_of(np.int32, np.int64)
    src, dst = draw.ids(count, num_nodes, dtype), draw.ids(count, num_nodes, dtype)
    if draw.chance(0.05):
        num_nodes = draw.one_of(1 << 61, (1 << 64) - 1, 1 << 64, -1, 1.5, None)
    return [src, dst, num_nodes, draw.threads()]


def check_csc_answer(arguments: list[Any], answer: Any) -> None:
    """The edges sorted by destination, their ids leading back."""
    src, dst, num_nodes = values(arguments[0]), values(arguments[1]), int(arguments[2])
    indptr, indices, edge_ids = answer
    check_rows(indptr, num_nodes, len(src))
    order = np.arange(len(src)) if edge_ids is None else values(edge_ids)
    assert np.array_equal(src[order], values(indices))
    assert np.array_equal(dst[order], np.repeat(np.arange(num_nodes), np.diff(values(indptr))))


def _check_csc_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [graph.indptr, graph.indices, draw.threads()]


def _check_csc_of_ids(draw: Draw) -> list[Any]:
    graph = draw.graph()
    num_ids = draw.one_of(-1, 0, 1 << 63, 1 << 64, 1.5) if draw.chance(0.05) else graph.num_nodes
    return [graph.indptr, graph.indices, num_ids, draw.threads()]


def check_sound(arguments: list[Any], answer: Any) -> None:
    """What passes check_csc is a graph."""
    indptr, indices, num_ids = values(arguments[0]), values(arguments[1]), int(arguments[2])
    check_rows(indptr, len(indptr) - 1, len(indices))
    assert ((indices >= 0) & (indices < num_ids)).all()


def check_parallel(arguments: list[Any], answer: Any) -> None:
    assert answer == reference.has_parallel_edges(values(arguments[0]), values(arguments[1]))


def _check_weights_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [graph.indptr, draw.weights(graph.num_edges), draw.threads()]


def check_good_weights(arguments: list[Any], answer: Any) -> None:
    """What passes check_weights is finite and not negative, as far as rows reach."""
    if arguments[1] is None:
        return  # the raw function takes it for a graph without weights
    starts = values(arguments[0])
    for start, stop in pairwise(starts):
        row = values(arguments[1])[start:stop].astype(float)
        assert ((row >= 0) & np.isfinite(row)).all()


def _compact_arguments(draw: Draw) -> list[Any]:
    neighbors = draw.ids(draw.integer(0, MAX_EDGES), 40, draw.one_of(np.int32, np.int64))
    return [draw.unique_ids(40), neighbors]


# --- sampling ---------------------------------------------------------------------------------------------------------


def _hop_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    frontier = draw.ids(draw.integer(0, 8), graph.num_nodes)
    weights = draw.weights(graph.num_edges) if draw.chance(0.5) else None
    return [
        graph.indptr,
        graph.indices,
        frontier,
        draw.one_of(*KINDS),
        fanout(draw),
        rounds(draw),
        draw.key() if draw.chance(0.7) else _native.VariateKeys(draw.key(), draw.key(), 2, 5),
        weights,
        draw.threads(),
        reducer(draw),
        draw.chance(0.5),
        *_elements(draw, len(frontier), graph.num_edges),
        excluded(draw, graph),
    ]


def _elements(draw: Draw, num_dst: int, num_edges: int) -> list[Any]:
    """Slots, times and both bounds: often none, at times of another length; unsorted times are cut anywhere."""
    lengths = [length + (draw.integer(0, 2) if draw.chance(0.05) else 0) for length in (num_dst, num_edges, num_dst)]
    lengths.append(lengths[-1])  # of lower bounds
    return [draw.ids(length, 6) if draw.chance(0.4) else None for length in lengths]


def _hop(*arguments: Any) -> Any:
    """The rule is what arguments 3 to 5 make of it, and the weights."""
    indptr, indices, frontier, kind, limit, num_rounds, key, weights, *rest = arguments
    rule = _native.Rule(kind, limit, num_rounds, weights is not None)
    return _native.sample_hop(indptr, indices, frontier, [rule], key, weights, *rest)


def _check_traits(arguments: list[Any], answer: Any) -> None:
    del arguments
    assert list(answer) == KINDS


def _rule_arguments(draw: Draw) -> list[Any]:
    return [draw.one_of(*KINDS), fanout(draw), rounds(draw), draw.chance(0.5)]


def check_hop(
    graph_indptr: Any, graph_indices: Any, frontier: Any, weights: Any, picked: tuple[Any, Any, Any, Any]
) -> None:
    """Picks lie within the rows of their destinations, and are the neighbours they are said to be."""
    indptr, neighbors, positions, importance = picked
    places, nodes = values(positions), values(frontier)
    check_rows(indptr, len(nodes), len(places))
    assert np.array_equal(values(graph_indices)[places], values(neighbors))
    owners = np.repeat(nodes, np.diff(values(indptr)))
    starts = values(graph_indptr)
    assert (places >= starts[owners]).all()
    assert (places < starts[owners + 1]).all()
    if importance is not None:
        assert len(importance) == len(places)
        check_importance(indptr, importance, weights)


def _check_native_hop(arguments: list[Any], answer: Any) -> None:
    indptr, indices, frontier, _, _, _, _, weights, _, parts, *_ = arguments
    if not isinstance(parts, Liar):
        check_hop(indptr, indices, frontier, weights, answer)
        check_excluded(arguments[15], answer[0], arguments[11], answer[2])


def _sampler(
    indptr: Any, indices: Any, edge_ids: Any, weights: Any, first_number: Any, most_slots: Any
) -> _native.FusedSampler:
    """Of a graph without types, or of one with a relation that ends in all nodes, which is the same."""
    num_nodes = len(indptr) - 1
    relations = [_native.Relation(0, num_nodes, 0, 1)] if isinstance(first_number, int) and num_nodes > 0 else []
    return _native.FusedSampler(indptr, indices, edge_ids, weights, relations, None, first_number, most_slots)


def _fused(*arguments: Any) -> Any:
    """Construct and sample: what the two take are positional arguments 0 to 5 and the rest; 7 to 9 are of rules."""
    sampler = _sampler(*arguments[:6])
    seeds, kinds, limits, num_rounds, *rest = arguments[6:]
    by_weight = arguments[3] is not None
    rules = [[_native.Rule(*one, by_weight)] for one in zip(kinds, limits, num_rounds, strict=True)]
    sampler.sample(seeds, rules, *rest)
    return sampler.sample(seeds, rules, *rest)  # the second call finds the node map used


def _fused_arguments(draw: Draw) -> list[Any]:
    graph, hops = draw.graph(large=draw.chance(0.01)), draw.integer(0, 3)
    edge_ids = draw.one_of(None, np.arange(graph.num_edges, dtype=draw.one_of(np.int32, np.int64)))
    weights = draw.weights(graph.num_edges) if draw.chance(0.5) else None
    return [
        graph.indptr,
        graph.indices,
        edge_ids,
        weights,
        draw.one_of(0, 1, (1 << 31) - 1, (1 << 32) - 2),
        draw.one_of(0, 1 << 27),
        draw.unique_ids(graph.num_nodes),
        [draw.one_of(*KINDS) for _ in range(hops)],
        [fanout(draw) for _ in range(hops)],
        [rounds(draw) for _ in range(hops)],
        [draw.key() for _ in range(hops)],
        draw.chance(0.5),
        draw.chance(0.8),
        draw.threads(),
    ]


def _check_fused(arguments: list[Any], answer: Any) -> None:
    n_id, blocks, num_nodes, num_edges, _ = answer
    check_blocks(values(arguments[0]), values(arguments[1]), values(arguments[6]), n_id, num_nodes)
    check_compact(arguments[6], n_id, n_id, np.arange(len(n_id)))
    assert sum(len(indices) for _, indices, _, _, _ in blocks) == sum(num_edges)
    for indptr, indices, edge_ids, weights, num_src in blocks:
        check_rows(indptr, len(indptr) - 1, len(indices))
        assert len(indptr) - 1 <= num_src <= len(n_id)
        assert (np.asarray(indices) < num_src).all()
        if edge_ids is not None and arguments[2] is None:
            assert np.array_equal(values(arguments[1])[edge_ids], n_id[indices])
        assert weights is None or len(weights) == len(indices)


def check_blocks(indptr: np.ndarray, indices: np.ndarray, seeds: np.ndarray, n_id: Any, num_nodes: Any) -> None:
    """Ids are nodes, the seeds first, as many as the hops say they found."""
    found = values(n_id)
    assert ((found >= 0) & (found < len(indptr) - 1)).all()
    assert len(found) == sum(num_nodes)
    assert num_nodes[0] == len(seeds)


# --- the module itself ------------------------------------------------------------------------------------------------


def _check_empty(arguments: list[Any], answer: Any) -> None:
    assert len(answer) == int(arguments[0])
    answer[:] = 255


def _set_arguments(draw: Draw) -> list[Any]:
    return [draw.one_of(*_native.InstructionSet)]


def _check_num_threads(given: list[Any], answer: int) -> None:
    del given
    assert 0 <= answer < MAX_THREADS


def _small_or_impossible(draw: Draw) -> int:
    """A count of things to be made: tens of them, or more than any address space has room for."""
    return draw.one_of(1 << 63, (1 << 64) - 1) if draw.chance(0.1) else draw.integer(0, 40)


_COUNTS = frozenset({2})  # 2**32 words would be honest work

ENTRIES = {
    "philox4x32": Entry(
        _native.philox4x32,
        lambda draw: [[draw.random.getrandbits(32) for _ in range(n)] for n in (4, 2)],
        _check_philox,
    ),
    "stream_key": Entry(
        _native.stream_key,
        lambda draw: [draw.random.getrandbits(bits) for bits in (64, 32, 64, 16, 16)],
        _check_stream_key,
    ),
    "stream_words": Entry(
        _native.stream_words, lambda draw: [draw.key(), draw.key(), _small_or_impossible(draw)], _check_words, _COUNTS
    ),
    "bounded_integers": Entry(
        _native.bounded_integers,
        lambda draw: [draw.key(), draw.key(), abs(draw.edge_of_range()), _small_or_impossible(draw)],
        _check_bounded,
        frozenset({3}),
    ),
    "shuffled_range": Entry(_native.shuffled_range, _range_arguments, check_range, frozenset({1, 2})),
    "feistel_range": Entry(_native.feistel_range, _range_arguments, check_range, frozenset({1, 2})),
    "coo_to_csc": Entry(_native.coo_to_csc, edge_list_arguments, check_csc_answer, frozenset({2, 3}), aligned=True),
    "check_csc": Entry(_native.check_csc, _check_csc_of_ids, check_sound, frozenset({2, 3}), aligned=True),
    "has_parallel_edges": Entry(
        _native.has_parallel_edges, _check_csc_arguments, check_parallel, frozenset({2}), aligned=True
    ),
    "check_weights": Entry(
        _native.check_weights, _check_weights_arguments, check_good_weights, frozenset({2}), aligned=True
    ),
    "compact": Entry(
        _native.compact, _compact_arguments, lambda given, answer: check_compact(*given, *answer), aligned=True
    ),
    "rule_traits": Entry(_native.rule_traits, lambda draw: [], _check_traits),
    "Rule.__init__": Entry(_native.Rule, _rule_arguments, lambda given, answer: None),
    "sample_hop": Entry(_hop, _hop_arguments, _check_native_hop, frozenset({4, 5, 8}), aligned=True),
    "FusedSampler.__init__": Entry(
        _sampler,
        lambda draw: _fused_arguments(draw)[:6],
        lambda given, answer: None,
        aligned=True,
    ),
    "FusedSampler.scratch_bytes": Entry(
        lambda *arguments: _sampler(*arguments).scratch_bytes(),
        lambda draw: _fused_arguments(draw)[:6],
        lambda given, answer: None,
        aligned=True,
    ),
    "FusedSampler.sample": Entry(_fused, _fused_arguments, _check_fused, frozenset({8, 9, 13}), aligned=True),
    "has": Entry(_native.has, _set_arguments, lambda given, answer: None),
    "use_instruction_set": Entry(_native.use_instruction_set, _set_arguments, lambda given, answer: None),
    "share_all_work": Entry(_native.share_all_work, lambda draw: [draw.chance(0.5)], lambda given, answer: None),
    "threads_in_pool": Entry(_native.threads_in_pool, lambda draw: [], _check_num_threads),
    "empty": Entry(_native.empty, lambda draw: [_small_or_impossible(draw)], _check_empty, frozenset({0})),
}
