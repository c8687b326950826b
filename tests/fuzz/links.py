"""Entries for edges of pairs and negative destinations, and edges that hops are not to pick."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from headrace import ops
from headrace.ops import _native, reference

from fuzz.draw import Draw, Graph
from fuzz.entry import Entry, values

LAWS = list(_native.NegativeLaw)


def excluded(draw: Draw, graph: Graph) -> Any:
    """Some edges of some rows, or of some in some trees; one time in ten with a wrong number, and often none."""
    if draw.chance(0.5):
        return None
    by_tree = draw.chance(0.4)
    rows, starts, positions, slots = [], [0], [], []
    for row in range(len(graph.indptr) - 1):
        for slot in range(3 if by_tree else 1):
            if not draw.chance(0.5):
                continue
            first, end = (int(np.clip(graph.indptr[row + i], 0, graph.num_edges)) for i in range(2))
            positions += [position for position in range(first, end) if draw.chance(0.4)]
            rows.append(row)
            starts.append(len(positions))
            slots.append(slot)
    parts = [np.array(one, np.int64) for one in (rows, starts, positions, *([slots] if by_tree else []))]
    if draw.chance(0.1):
        part = draw.one_of(*parts)
        if len(part):
            part[draw.integer(0, len(part) - 1)] = draw.one_of(-1, 0, 1, graph.num_nodes, graph.num_edges, 1 << 62)
    return (*parts, *([] if by_tree else [None]))


def check_excluded(given: Any, indptr: Any, slots: Any, picked: Any) -> None:
    """None of the edges was picked, for a destination in a slot none of those of its slot."""
    if given is None:
        return
    _, starts, gone, of_trees = given
    if of_trees is None:
        assert not np.isin(values(picked), values(gone)).any()
        return
    trees = np.repeat(values(slots), np.diff(values(indptr)))
    left_out = np.repeat(values(of_trees), np.diff(values(starts)))
    both = set(zip(values(gone).tolist(), left_out.tolist(), strict=True))
    assert not both & set(zip(values(picked).tolist(), trees.tolist(), strict=True))


def _pair_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    count = draw.integer(0, 20)
    ends = [draw.ids(count, graph.num_nodes) for _ in range(2)]
    return [graph.indptr, graph.indices, *ends, draw.threads(), draw.ids(count, 3) if draw.chance(0.5) else None]


def _check_found(arguments: list[Any], answer: Any) -> None:
    indptr, indices, sources, destinations = map(values, arguments[:4])
    rows, starts, positions = map(values, answer[:3])
    slots = arguments[5]
    assert (answer[3] is None) == (slots is None)
    of_rows = np.zeros(len(rows), np.int64) if slots is None else values(answer[3])
    pairs_of_rows = list(zip(rows.tolist(), of_rows.tolist(), strict=True))
    assert pairs_of_rows == sorted(set(pairs_of_rows))  # differences of slots would overflow: a slot is any int64
    ends = np.repeat(rows, np.diff(starts))
    assert ((indptr[ends] <= positions) & (positions < indptr[ends + 1])).all()
    wanted = set(zip(sources.tolist(), destinations.tolist(), strict=True))
    assert set(zip(indices[positions].tolist(), ends.tolist(), strict=True)) <= wanted
    if (np.diff(indptr) >= 0).all() and indptr[0] == 0 and indptr[-1] == len(indices):
        pairs = indptr, indices, sources, destinations
        if slots is None:
            assert positions.tolist() == reference.links.find_edges(*pairs).tolist()
            return
        left_out = np.repeat(of_rows, np.diff(starts))
        for slot, expected in reference.links.find_edges_by_tree(*pairs, values(slots)).items():
            assert positions[left_out == slot].tolist() == expected.tolist()


def _negative_arguments(draw: Draw) -> list[Any]:
    """2**31 negatives would be honest work."""
    graph = draw.graph()
    first = draw.integer(0, max(graph.num_nodes - 1, 0))
    last = draw.integer(first + 1, max(graph.num_nodes, first + 1))
    counts = np.array([draw.integer(0, 4) for _ in range(draw.integer(0, 6))], np.int64)
    if len(counts) and draw.chance(0.05):
        counts[0] = draw.one_of(-1, 1 << 62, -(1 << 63), (1 << 63) - 1)
    sums = np.cumsum([draw.one_of(0.0, 1.0, 2.0) for _ in range(last - first)])
    if draw.chance(0.1):
        sums = draw.one_of(sums[1:], sums[::-1].copy(), np.full(last - first, np.nan), -sums)
    sources = draw.ids(len(counts), graph.num_nodes) if draw.chance(0.5) else None
    order = prefix = None
    if draw.chance(0.3):
        order = np.arange(first, last, dtype=np.int64)[::-1].copy()
        if draw.chance(0.3):  # the ends of edges, more of them than nodes
            order = np.array([draw.integer(first, last - 1) for _ in range(draw.integer(1, 12))], np.int64)
        if draw.chance(0.2):
            order[draw.integer(0, len(order) - 1)] = draw.one_of(-1, last, first, 1 << 62)
    if draw.chance(0.3):
        size = last - first if order is None else len(order)
        prefix = np.array([draw.integer(0, size) for _ in counts], np.int64)
        if len(prefix) and draw.chance(0.2):
            prefix[0] = draw.one_of(-1, size + 1, 1 << 62)
    return [
        graph.indptr,
        graph.indices,
        first,
        last,
        draw.one_of(*LAWS),
        sums,
        counts,
        sources,
        order,
        prefix,
        draw.integer(0, 1 << 40),
        draw.key(),
        draw.threads(),
    ]


def _check_negatives(arguments: list[Any], answer: Any) -> None:
    indptr, indices, first, last, _, _, counts, sources, order, prefix, *_ = arguments
    drawn = values(answer)
    assert len(drawn) == values(counts).sum()
    assert ((drawn >= int(first)) & (drawn < int(last))).all()
    if prefix is not None:
        nodes = np.arange(int(first), int(last)) if order is None else values(order)
        for length, node in zip(np.repeat(values(prefix), values(counts)), drawn, strict=True):
            assert node in nodes[:length]
    if sources is not None:
        starts, neighbors = values(indptr), values(indices)
        for source, node in zip(np.repeat(values(sources), values(counts)), drawn, strict=True):
            assert source not in neighbors[starts[node] : starts[node + 1]]


def _public_negatives(draw: Draw) -> list[Any]:
    indptr, indices, first, last, law, sums, counts, sources, order, prefix, first_pair, key, threads = (
        _negative_arguments(draw)
    )
    weight = {LAWS[0]: None, LAWS[1]: "degree", LAWS[2]: sums}[law]
    return [indptr, indices, counts, key, (first, last), weight, sources, order, prefix, first_pair, threads]


def _negatives(*arguments: Any) -> torch.Tensor:
    indptr, indices, counts, key, nodes, weight, reject, order, prefix, first_pair, threads = arguments
    return ops.draw_negatives(
        indptr,
        indices,
        counts,
        key=key,
        nodes=nodes,
        weight=weight,
        reject=reject,
        order=order,
        prefix=prefix,
        first_pair=first_pair,
        num_threads=threads,
    )


def _check_public_negatives(arguments: list[Any], answer: Any) -> None:
    indptr, indices, counts, _, nodes, _, reject, order, prefix, *_ = arguments
    first, last = (0, len(indptr) - 1) if nodes is None else nodes
    _check_negatives([indptr, indices, first, last, None, None, counts, reject, order, prefix], answer)


def _find(indptr: Any, indices: Any, sources: Any, destinations: Any, num_threads: Any, slots: Any) -> Any:
    return ops.find_edges(indptr, indices, sources, destinations, slots=slots, num_threads=num_threads)


NATIVE_ENTRIES = {
    "find_edges": Entry(_native.find_edges, _pair_arguments, _check_found, aligned=True),
    "draw_negatives": Entry(_native.draw_negatives, _negative_arguments, _check_negatives, aligned=True),
}
PUBLIC_ENTRIES = {
    "find_edges": Entry(_find, _pair_arguments, _check_found),
    "draw_negatives": Entry(_negatives, _public_negatives, _check_public_negatives),
}
