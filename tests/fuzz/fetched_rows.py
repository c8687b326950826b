"""Entries for rows that are fetched and sampled from, of headrace.ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace import ops
from headrace.ops import reference

from fuzz.draw import Draw
from fuzz.entry import Entry, check_rows, values


def _arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [graph.indptr, graph.indices, draw.ids(draw.integer(0, 8), graph.num_nodes)]


def _check(arguments: list[Any], rows: ops.FetchedRows) -> None:
    expected = reference.fetch_rows(*map(values, arguments))
    for name, array in expected._asdict().items():
        assert np.array_equal(values(getattr(rows, name)), array)


def _sample(indptr: Any, indices: Any, starts: Any, rule: Any, *rest: Any) -> ops.Hop:
    key, parallel_edges, num_threads = rest
    rows = ops.FetchedRows(indptr, indices, starts)
    return ops.sample_fetched(rows, rule, key, parallel_edges=parallel_edges, num_threads=num_threads)


def _sample_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    starts = np.array([draw.integer(0, 1 << 40) for _ in range(len(graph.indptr) - 1)], np.int64)
    rule = ops.LaborRule(draw.integer(-1, 9), draw.chance(0.5)) if draw.chance(0.7) else ops.NeighborRule(-1)
    return [graph.indptr, graph.indices, starts, rule, draw.key(), True, draw.threads()]


def _check_sample(arguments: list[Any], hop: ops.Hop) -> None:
    indptr, indices, starts = map(values, arguments[:3])
    check_rows(hop.indptr, len(starts), len(hop.positions))
    of_row = np.repeat(np.arange(len(starts)), np.diff(values(hop.indptr)))
    places = values(hop.positions) - starts[of_row] + indptr[of_row]
    assert (places >= indptr[of_row]).all()
    assert (places < indptr[of_row + 1]).all()
    assert np.array_equal(indices[places], values(hop.neighbors))


PUBLIC_ENTRIES = {
    "fetch_rows": Entry(ops.fetch_rows, _arguments, _check),
    "sample_fetched": Entry(_sample, _sample_arguments, _check_sample),
}
