"""Features under new ids."""

from __future__ import annotations

import pytest
import torch

import headrace as hr
from headrace.pipeline.storage.array_source import ArraySource
from headrace.pipeline.storage.reordered_rows import ReorderedRows

X = torch.arange(12.0).reshape(4, 3)


def test_rows_follow_the_order():
    order = torch.tensor([2, 0, 3, 1])
    rows = hr.FeatureStore(node={"x": ReorderedRows(ArraySource(X), order)}).node["x"]
    assert torch.equal(rows.read(torch.arange(4)).rows, X[order])
    assert torch.equal(rows.read(torch.tensor([3, 3, 0])).rows, X[[1, 1, 2]])
    assert (rows.num_rows, rows.row_bytes, rows.dtype, rows.shape) == (4, 12, torch.float32, (4, 3))
    others = [ReorderedRows(ArraySource(X), order.flip(0)), ReorderedRows(ArraySource(X + 1), order)]
    assert len({source.content_digest() for source in (rows, *others)}) == 3


def test_what_is_no_order_of_these_rows_is_refused():
    with pytest.raises(hr.FeatureError, match="expected an order of 4 rows, got 3 ids"):
        ReorderedRows(ArraySource(X), torch.arange(3))
    with pytest.raises(hr.FeatureError):
        ReorderedRows(ArraySource(X), torch.arange(4)).read(torch.tensor([4]))
