"""Rows that processes share: the same memory where they are opened, and errors where it is not there."""

from __future__ import annotations

import pytest
import torch

from headrace.ops.errors import HeadraceError
from headrace.ops.features.shared_rows import SharedRows, opened_rows

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_opened_rows_are_the_same_memory(dtype):
    rows = torch.arange(24).reshape(4, 3, 2).to(dtype)
    shared = SharedRows(rows, CPU)
    opened = opened_rows(shared.handle, (4, 3, 2), dtype, CPU)
    assert torch.equal(opened, rows)
    assert torch.equal(shared.rows, rows)
    shared.rows[1] = 0
    assert bool((opened[1] == 0).all())
    assert not torch.equal(opened, rows)


def test_rows_outlive_what_shared_them():
    rows = torch.randn(5, 2)
    shared = SharedRows(rows, CPU)
    opened = opened_rows(shared.handle, (5, 2), rows.dtype, CPU)
    handle = shared.handle
    shared.close()
    shared.close()
    assert torch.equal(opened, rows)
    with pytest.raises(HeadraceError, match="expected 40 shared bytes, got none"):
        opened_rows(handle, (5, 2), rows.dtype, CPU)


def test_more_than_is_shared_is_refused():
    shared = SharedRows(torch.randn(5, 2), CPU)
    with pytest.raises(HeadraceError, match="expected 48 shared bytes, got none"):
        opened_rows(shared.handle, (6, 2), torch.float32, CPU)


def test_nothing_is_shared_without_memory():
    shared = SharedRows(torch.empty(0, 3), CPU)
    assert shared.handle == ""
    assert opened_rows("", (0, 3), torch.float32, CPU).shape == (0, 3)
