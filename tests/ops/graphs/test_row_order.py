"""The order that sorts each row of a graph by keys of its edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import InputError
from headrace.ops.graphs.csc import order_of_rows

from strategies import csc_graphs, thread_counts


@given(csc_graphs(), thread_counts, st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 1 << 62]))
def test_rows_are_in_order_and_equal_keys_in_theirs(graph, num_threads, seed, spread):
    keys = np.random.default_rng(seed).integers(-spread, spread, graph.num_edges)
    order = order_of_rows(graph.indptr, torch.from_numpy(keys), num_threads=num_threads)
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    expected = np.lexsort((np.arange(len(keys)), keys, rows))
    if order is None:
        assert (expected == np.arange(len(keys))).all()
    else:
        assert order.tolist() == expected.tolist()


def test_many_rows_on_several_threads():
    random = np.random.default_rng(0)
    indptr = np.concatenate([[0], np.cumsum(random.integers(0, 40, 20_000))])
    keys = random.integers(0, 9, indptr[-1])
    rows = np.repeat(np.arange(20_000), np.diff(indptr))
    for num_threads in (1, 4):
        order = order_of_rows(torch.from_numpy(indptr), torch.from_numpy(keys), num_threads=num_threads)
        assert np.array_equal(order, np.lexsort((keys, rows)))
        assert order_of_rows(torch.from_numpy(indptr), torch.from_numpy(keys)[order], num_threads=num_threads) is None


@pytest.mark.parametrize("indptr", [[0, 1], [1, 2], [0, 3, 2]])
def test_malformed_rows_are_refused(indptr):
    with pytest.raises(InputError, match="indptr"):
        order_of_rows(torch.tensor(indptr), torch.tensor([2, 1]))
