"""The rows of some of many nodes are sampled as the whole graph with empty rows."""

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


def test_other_bounds_are_refused():
    with pytest.raises(InputError, match="expected 3 bounds of rows, got 2"):
        RankedRows.of(torch.tensor([1, 2]), torch.zeros(2, dtype=torch.int64), 9)


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
