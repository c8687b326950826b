"""Sparse rows: copies are dropped when the entries were written, and the default dtype changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr
from headrace.pipeline.storage.sparse_rows import SparseRows

NUM_ROWS = 300


def plan_of(source):
    return hr.ItemSampler(NUM_ROWS, batch_size=30).fetch_feature(hr.FeatureStore(node={"x": source}), node=["x"])


def values(loader):
    return {float(value) for batch in loader for value in batch.x.unique()}


def test_sparse_rows():
    entries = np.ones(NUM_ROWS, np.float32)
    source = SparseRows(np.arange(NUM_ROWS + 1), np.zeros(NUM_ROWS, np.int64), entries, 1)
    with plan_of(hr.CachedFeature(source, rows=NUM_ROWS)).loader() as loader:
        assert values(loader) == {1}
        entries[:] = 2
        assert values(loader) == {2}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_rows_have_the_dtype_of_the_entries(dtype):
    def read():
        rows = SparseRows([0, 2, 3], [1, 1, 0], np.asarray([0.1, 0.2, 0.3], np.float32), 4)
        return rows.read(torch.arange(2)).rows

    expected, before = read(), torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        assert read().dtype == expected.dtype
        assert torch.equal(read(), expected)
    finally:
        torch.set_default_dtype(before)
