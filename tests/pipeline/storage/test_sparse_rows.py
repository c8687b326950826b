"""Sparse features, read dense."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.pipeline.storage.sparse_rows import SparseRows


@given(st.integers(1, 20), st.integers(1, 9), st.integers(0, 60), st.integers(0, 2**32 - 1))
def test_rows_are_those_of_the_matrix(num_rows, num_columns, num_entries, seed):
    """Entries that come twice add up."""
    random = np.random.default_rng(seed)
    row, column = random.integers(0, num_rows, num_entries), random.integers(0, num_columns, num_entries)
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=num_rows))])
    values = random.integers(0, 9, num_entries).astype(np.uint8)
    matrix = scipy.sparse.csr_matrix((values.astype(np.float32), column, starts), shape=(num_rows, num_columns))
    rows = SparseRows(starts, column, values, num_columns)
    ids = torch.from_numpy(random.integers(0, num_rows, 7))
    found = rows.read(ids).rows
    assert found.dtype == rows.dtype == torch.float32
    assert np.array_equal(found, matrix.toarray()[ids])
    assert rows.shape == (rows.num_rows, num_columns) == matrix.shape
    assert rows.row_bytes == 4 * num_columns


def test_it_is_a_feature_source():
    store = hr.FeatureStore(node={"x": SparseRows([0, 1, 1], [2], [7], 4)})
    assert store.node["x"].read(torch.tensor([1, 0])).rows.tolist() == [[0, 0, 0, 0], [0, 0, 7, 0]]
    others = [([0, 0, 1], [2], [7], 4), ([0, 1, 1], [1], [7], 4), ([0, 1, 1], [2], [8], 4), ([0, 1, 1], [2], [7], 5)]
    digests = {SparseRows(*arrays).content_digest() for arrays in others} | {store.node["x"].content_digest()}
    assert len(digests) == 5


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([], [0], [1], 3), "expected indptr to rise"),
        (([0, 2], [0], [1], 3), r"its ends are \(0, 2\)"),
        (([0, 2, 1], [0], [1], 3), "expected indptr to rise"),
        (([0, 1], [3], [1], 3), r"columns in \[0, 3\), got 3 to 3"),
        (([0, 1], [-1], [1], 3), r"columns in \[0, 3\), got -1 to -1"),
        (([0, 1], [0], [1, 2], 3), "a value for each of 1 entries"),
        (([0, 1], [0.5], [1], 3), "indices to be int32 or int64"),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(arrays, message):
    with pytest.raises(hr.InputError, match=message):
        SparseRows(*arrays)


def test_rows_that_there_are_not_are_refused():
    with pytest.raises(hr.InputError, match="row"):
        SparseRows([0, 1], [0], [1], 3).read(torch.tensor([1]))
