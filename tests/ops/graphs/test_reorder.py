"""Nodes in another order, against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import ops
from headrace.ops import reference
from headrace.ops.errors import InputError

from strategies import csc_graphs, thread_counts

pytestmark = pytest.mark.slow


@given(st.data(), thread_counts, st.sampled_from([torch.int32, torch.int64]), st.integers(1, 50))
def test_reordering(data, num_threads, dtype, piece_edges):
    graph = data.draw(csc_graphs())
    order = torch.tensor(data.draw(st.permutations(range(graph.num_nodes))), dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.ops.graphs.rows.PIECE_EDGES", piece_edges)
        found = ops.reorder_csc(graph.indptr, graph.indices, order, num_threads=num_threads)
    arrays = (array.numpy() for array in (graph.indptr, graph.indices, order))
    indptr, indices, edge_ids = reference.reorder.reorder_csc(*arrays)
    assert np.array_equal(found.indptr, indptr)
    assert np.array_equal(found.indices, indices)
    assert (found.edge_ids is None) == np.array_equal(edge_ids, np.arange(graph.num_edges))
    if found.edge_ids is not None:
        assert np.array_equal(found.edge_ids, edge_ids)
        assert found.edge_ids.dtype == torch.int32
    assert (found.indptr.dtype, found.indices.dtype) == (torch.int64, torch.int32)


@given(csc_graphs(min_nodes=1), st.randoms(use_true_random=False))
def test_the_inverse_order_leads_back(graph, random):
    order = np.array(random.sample(range(graph.num_nodes), graph.num_nodes), dtype=np.int64)
    there = ops.reorder_csc(graph.indptr, graph.indices, order)
    back = ops.reorder_csc(there.indptr, there.indices, np.argsort(order))
    assert torch.equal(back.indptr, graph.indptr)
    assert torch.equal(back.indices.long(), graph.indices.long())


def test_arrays_that_cannot_be_written_to():
    indptr, indices, order = np.array([0, 1, 3]), np.array([1, 0, 1]), np.array([1, 0])
    for array in (indptr, indices, order):
        array.flags.writeable = False
    assert ops.reorder_csc(indptr, indices, order).indices.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 1], "each of 3 nodes once, got 2 ids from 0 to 1$"),
        ([0, 1, 1], "got 3 ids from 0 to 1, some of them repeated"),
        ([0, 1, 3], "got 3 ids from 0 to 3$"),
        ([0, -1, 1], "got 3 ids from -1 to 1$"),
        ([], "got 0 ids"),
        ([0.0, 1.0, 2.0], "order to be a 1-d"),
    ],
)
def test_orders_that_miss_nodes_are_refused(order, message):
    array = np.array(order) if order else np.empty(0, np.int64)
    with pytest.raises(InputError, match=message):
        ops.reorder_csc(np.array([0, 0, 0, 0]), np.empty(0, np.int32), array)


def test_graphs_that_are_none_are_refused():
    with pytest.raises(InputError, match="check_csc"):
        ops.reorder_csc(np.array([0, 2, 1, 3]), np.zeros(3, np.int32), np.arange(3))
    with pytest.raises(InputError, match="check_csc"):
        ops.reorder_csc(np.array([0, 1]), np.array([1], np.int32), np.arange(1))
