"""Which edges go by their ids: those of the reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from without import edges_by_id

import headrace as hr
from headrace.ops import reference
from headrace.pipeline.lowered._excluded import SeedEdges
from headrace.pipeline.lowered._seed_edge_ids import SeedEdgeIds

from strategies import csc_graphs


@pytest.mark.parametrize("by_tree", [False, True])
@given(csc_graphs(min_nodes=1), st.data())
def test_edges_are_those_of_the_reference(by_tree, graph, data):
    """Of any graph, in any order of ids, some of them twice."""
    one = hr.Graph.from_csc(graph.indptr, graph.indices, edge_ids=graph.edge_ids)
    edge = st.integers(0, max(graph.num_edges - 1, 0))
    ids = torch.tensor(data.draw(st.lists(edge, max_size=12 if graph.num_edges else 0)), dtype=torch.int64)
    pairs = edges_by_id(one)[:, ids].t().contiguous()
    slots = torch.arange(len(ids)) if by_tree else None
    found = SeedEdges(by_tree=by_tree).find(one, pairs, 1, slots, SeedEdgeIds(ids))
    numbers, indptr = one.edge_ids.numpy(), graph.indptr.numpy()
    if not by_tree:
        positions = reference.links.find_edges_by_id(numbers, ids.numpy())
        assert found.positions.tolist() == positions.tolist()
        rows, counts = np.unique(np.searchsorted(indptr, positions, side="right") - 1, return_counts=True)
        assert found.rows.tolist() == rows.tolist()
        assert found.starts.diff().tolist() == counts.tolist()
        return
    expected = []
    for slot, number in enumerate(ids.tolist()):
        (position,) = reference.links.find_edges_by_id(numbers, np.array([number])).tolist()
        expected.append((int(np.searchsorted(indptr, position, side="right")) - 1, slot, position))
    columns = found.rows.tolist(), found.slots.tolist(), found.positions.tolist()
    assert list(zip(*columns, strict=True)) == sorted(expected)
    assert found.starts.tolist() == list(range(len(expected) + 1))
