"""The rows of some of many nodes: found as a dictionary finds them, and sampled as the whole graph with empty rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import ops
from headrace.ops import InputError
from headrace.ops.graphs.ranked_rows import RankedRows

from strategies import edge_lists

#: Sizes around words and blocks, of which one has the bits of 384 ids.
SIZES = (1, 63, 64, 65, 383, 384, 385, 767, 768, 1000)


@st.composite
def sets_of_ids(draw) -> tuple[int, list[int]]:
    size = draw(st.sampled_from(SIZES))
    return size, sorted(draw(st.sets(st.integers(0, size - 1))))


def ranked(ids: list[int], size: int) -> RankedRows:
    return RankedRows.of(torch.tensor(ids, dtype=torch.int64), torch.zeros(len(ids) + 1, dtype=torch.int64), size)


@pytest.mark.parametrize("device", ["cpu", "by operations of torch"])
@given(given_set=sets_of_ids())
def test_places_are_those_in_the_list(given_set, device):
    size, ids = given_set
    rows, every = ranked(ids, size), torch.arange(size)
    place = {one: number for number, one in enumerate(ids)}
    found = rows.find(every) if device == "cpu" else rows.find_by_torch(every)
    assert found.tolist() == [place.get(one, -1) for one in range(size)]


def test_sets_of_all_and_of_none():
    for size in SIZES:
        assert ranked(list(range(size)), size).find(torch.arange(size)).tolist() == list(range(size))
        assert ranked([], size).find(torch.arange(size)).unique().tolist() == [-1]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([0, 0], "ids that ascend in .0, 9., got 0 behind 0"),
        ([3, 2], "got 2 behind 3"),
        ([9], "got 9 behind -1"),
        ([-1], "got -1 behind -1"),
    ],
)
def test_ids_that_are_no_set_are_refused(ids, message):
    with pytest.raises(InputError, match=message):
        ranked(ids, 9)


def test_other_arguments_are_refused():
    with pytest.raises(InputError, match="expected 3 bounds of rows, got 2"):
        RankedRows.of(torch.tensor([1, 2]), torch.zeros(2, dtype=torch.int64), 9)
    for node in (-1, 9, 1 << 40):
        with pytest.raises(InputError, match=rf"expected ids in \[0, 9\), got {node}"):
            ranked([1], 9).find(torch.tensor([node]))


def split(edges, owners: list[int], part: int) -> tuple[ops.Array, RankedRows, torch.Tensor, torch.Tensor]:
    """Return the CSC of a graph with the rows of one part alone, the others empty, and as rows that are ranked."""
    graph = ops.coo_to_csc(edges.src, edges.dst, edges.num_nodes)
    own = torch.tensor([node for node, owner in enumerate(owners) if owner == part], dtype=torch.int64)
    degrees = graph.indptr.diff()
    positions = torch.cat([torch.arange(graph.indptr[node], graph.indptr[node + 1]) for node in own] or [own])
    kept = torch.zeros(edges.num_nodes, dtype=torch.int64)
    kept[own] = degrees[own]
    whole = torch.cat([torch.zeros(1, dtype=torch.int64), kept.cumsum(0)])
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), degrees[own].cumsum(0)])
    return whole, RankedRows.of(own, starts, edges.num_nodes), graph.indices[positions], own


RULES = [
    ops.NeighborRule(-1),
    ops.NeighborRule(2),
    ops.NeighborRule(3, replace=True),
    ops.LaborRule(2),
    ops.LaborRule(2, exact=False),
]


@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("rule", RULES, ids=str)
@given(edges=edge_lists(min_nodes=1), data=st.data())
def test_picks_are_those_of_the_graph_with_empty_rows(edges, data, rule, num_threads):
    owners = data.draw(st.lists(st.integers(0, 1), min_size=edges.num_nodes, max_size=edges.num_nodes))
    whole, rows, indices, _ = split(edges, owners, 0)
    frontier = torch.tensor(data.draw(st.lists(st.integers(0, edges.num_nodes - 1), max_size=20)), dtype=torch.int64)
    weights = torch.rand(len(indices)) if data.draw(st.booleans()) and "Labor" not in str(rule) else None
    arguments = (indices, frontier, rule, 7)
    options = {"num_threads": num_threads, "weights": weights}
    for expected, found in zip(
        ops.sample_hop(whole, *arguments, **options), ops.sample_hop(rows, *arguments, **options), strict=True
    ):
        assert (expected is None) == (found is None)
        assert expected is None or torch.equal(expected, found)


@given(edges=edge_lists(min_nodes=1), data=st.data())
def test_fused_hops_and_edges_of_pairs_are_those_of_the_graph_with_empty_rows(edges, data):
    owners = data.draw(st.lists(st.integers(0, 1), min_size=edges.num_nodes, max_size=edges.num_nodes))
    whole, rows, indices, _ = split(edges, owners, 0)
    nodes = st.integers(0, edges.num_nodes - 1)
    seeds = torch.tensor(data.draw(st.lists(nodes, unique=True, min_size=1, max_size=9)), dtype=torch.int64)
    weights = torch.rand(len(indices)) if data.draw(st.booleans()) else None
    pairs = torch.tensor(data.draw(st.lists(st.tuples(nodes, nodes), max_size=9)), dtype=torch.int64).view(-1, 2)
    found = [ops.find_edges(one, indices, *pairs.t().contiguous()) for one in (whole, rows)]
    for name in ("rows", "starts", "positions"):
        assert torch.equal(getattr(found[0], name), getattr(found[1], name))
    rules = (
        [ops.NeighborRule(2), ops.NeighborRule(2)] if weights is not None else [ops.LaborRule(2), ops.NeighborRule(2)]
    )
    for one in (None, found[1]):
        sampled = [
            ops.BlockSampler(bounds, indices, None, weights).sample(seeds, rules, [3, 4], excluded=one)
            for bounds in (whole, rows)
        ]
        assert torch.equal(sampled[0].n_id, sampled[1].n_id)
        for left, right in zip(sampled[0].hops, sampled[1].hops, strict=True):
            for expected, other in zip(left, right, strict=True):
                assert torch.equal(expected, other) if isinstance(expected, torch.Tensor) else expected == other


def test_rows_that_were_read_elsewhere():
    """Rows of one node of a hundred: nothing reads what is not there."""
    starts = torch.tensor([0, 3])
    rows = RankedRows.of(np.array([57]), starts, 100)
    hop = ops.sample_hop(rows, torch.tensor([5, 99, 7]), torch.tensor([0, 57, 99]), ops.NeighborRule(-1), 0)
    assert hop.indptr.tolist() == [0, 0, 3, 3]
    assert hop.neighbors.tolist() == [5, 99, 7]
