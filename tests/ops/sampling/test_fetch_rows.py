"""Rows that are fetched first, and picks of them: those of the graph, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import (
    BlendedKey,
    FetchedRows,
    InputError,
    LaborImportanceRule,
    LaborRule,
    LadiesRule,
    NeighborRule,
    fetch_rows,
    reference,
    sample_fetched,
    sample_hop,
)

from samples import assert_same
from strategies import csc_graphs, keys, nodes_of, thread_counts

pytestmark = pytest.mark.twins

WHOLE_ROWS = st.one_of(
    st.builds(NeighborRule, st.just(-1), st.booleans()), st.builds(LaborRule, st.integers(-1, 8), st.booleans())
)
FIELDS = ("indptr", "neighbors", "positions", "weights")


@st.composite
def blended(draw):
    """Keys of LABOR, of one stream or between two."""
    return draw(keys) if draw(st.booleans()) else BlendedKey(draw(keys), draw(keys), draw(st.integers(0, 2)), 3)


def assert_same_rows(rows, graph, frontier):
    expected = reference.fetch_rows(graph.indptr.numpy(), graph.indices.numpy(), frontier.numpy())
    for name, array in expected._asdict().items():
        assert_same(getattr(rows, name), array)
    assert rows.indices.dtype == graph.indices.dtype


@given(csc_graphs(), st.data())
def test_rows_equal_the_reference(graph, data):
    frontier = data.draw(nodes_of(graph, unique=False))
    assert_same_rows(fetch_rows(graph.indptr, graph.indices, frontier), graph, frontier)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("begin", range(0, 33, 3))
def test_rows_that_begin_and_end_anywhere_in_a_line(begin, dtype):
    """Also where the array itself begins in the midst of a line of memory."""
    whole = torch.arange(400, dtype=dtype)[begin:]
    indices = whole[: 300 + begin]
    lengths = [begin, 0, 1, 31, 32, 33, 64, 65, len(indices) - begin - 226]
    indptr = torch.tensor([0, *np.cumsum(lengths), *[len(indices)] * 400])
    frontier = torch.tensor([8, 0, 1, 2, 2, 3, 4, 5, 6, 7])
    rows = fetch_rows(indptr, indices, frontier)
    expected = reference.fetch_rows(indptr.numpy(), indices.numpy(), frontier.numpy())
    for name, array in expected._asdict().items():
        assert_same(getattr(rows, name), array)


@given(csc_graphs(), WHOLE_ROWS, st.data(), thread_counts)
def test_picks_equal_those_of_the_graph(graph, rule, data, num_threads):
    """Of slots, blended keys and parallel edges as well."""
    frontier = data.draw(nodes_of(graph, unique=False))
    key = data.draw(blended() if isinstance(rule, LaborRule) else keys)
    in_slots = data.draw(st.booleans())
    slots = torch.tensor(data.draw(st.lists(st.integers(0, 3), min_size=len(frontier), max_size=len(frontier))))
    more = {"slots": slots.long() if in_slots else None, "num_threads": num_threads}
    rows = fetch_rows(graph.indptr, graph.indices, frontier)
    found = sample_fetched(rows, rule, key, **more)
    expected = sample_hop(graph.indptr, graph.indices, frontier, rule, key, **more)
    for name in FIELDS:
        left, right = getattr(found, name), getattr(expected, name)
        assert (left is None) == (right is None)
        assert left is None or (left.dtype == right.dtype and torch.equal(left, right))


@pytest.mark.parametrize("rule", [LaborRule(10), LaborRule(10, exact=False), NeighborRule(-1)], ids=str)
def test_picks_of_hubs(skewed, rule):
    """Rows of thousands of edges, of which a block picks."""
    indptr, indices, _ = skewed
    frontier = torch.arange(300)
    found = sample_fetched(fetch_rows(indptr, indices, frontier), rule, 5)
    expected = sample_hop(indptr, indices, frontier, rule, 5)
    for name in FIELDS[:3]:
        assert torch.equal(getattr(found, name), getattr(expected, name))


def test_parallel_edges_are_picked_by_variates_of_their_own():
    """The second edge from a source is its second one wherever the row stands in the buffer."""
    indptr, indices = torch.tensor([0, 40, 80, *[80] * 10]), torch.tensor([1, 2] * 40)
    for key in range(10):
        hop = sample_fetched(fetch_rows(indptr, indices, torch.tensor([1, 0])), LaborRule(7), key)
        expected = reference.sample_hop(indptr.numpy(), indices.numpy(), np.array([1, 0]), LaborRule(7), key)
        assert hop.positions.tolist() == expected.positions.tolist()
        assert hop.positions[:7].tolist() == [position + 40 for position in hop.positions[7:].tolist()]


GOOD = np.array([0, 2, 3]), np.array([0, 1, 1])


@pytest.mark.parametrize(
    ("indptr", "indices", "frontier", "error", "message"),
    [
        (*GOOD, np.array([0, 2]), InputError, r"frontier\[1\] = 2 is not a node of the graph"),
        (*GOOD, np.array([-1]), InputError, r"frontier\[0\] = -1 is not a node of the graph"),
        (*GOOD, np.array([0], np.int32), InputError, "frontier to be a 1-d"),
        (np.array([0, 5, 3]), GOOD[1], np.array([1]), InputError, r"do not bound a row"),
        (np.array([0, 5, 3]), GOOD[1], np.array([0]), InputError, r"do not bound a row"),
        (np.array([0, 2]), GOOD[1], np.array([0]), InputError, "indptr to run from 0"),
        (np.array([], np.int64), GOOD[1], np.array([0]), InputError, "indptr to have num_nodes"),
    ],
)
def test_refusals_of_fetches(indptr, indices, frontier, error, message):
    with pytest.raises(error, match=f"^fetch_rows: .*{message}"):
        fetch_rows(indptr, indices, frontier)


@pytest.mark.parametrize(
    "rule", [NeighborRule(3), NeighborRule(3, replace=True), LaborImportanceRule(2), LadiesRule(4), "all"], ids=str
)
def test_other_rules_are_refused(rule):
    rows = fetch_rows(*GOOD, np.array([0]))
    with pytest.raises(InputError, match="expected a rule that looks at whole rows"):
        sample_fetched(rows, rule, 1)


def test_rows_that_were_not_fetched_are_refused():
    rows = fetch_rows(*GOOD, np.array([0, 1]))
    with pytest.raises(InputError, match="expected FetchedRows"):
        sample_fetched(tuple(rows), NeighborRule(-1), 1)
    with pytest.raises(InputError, match=r"one entry per row \(2\), got 1"):
        sample_fetched(rows._replace(starts=rows.starts[:1]), NeighborRule(-1), 1)
    with pytest.raises(InputError, match=r"do not bound a row|indptr to run"):
        sample_fetched(FetchedRows(torch.tensor([0, 9, 3]), rows.indices, rows.starts), NeighborRule(-1), 1)
