"""Rows on devices without kernels: torch's own operations give the same answers, shown here on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from headrace.ops import gather_rows, gather_rows_with_grad, scatter_add_rows
from headrace.ops.errors import InputError
from headrace.ops.features import torch_rows
from headrace.ops.features.gather import empty_rows

X = torch.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_the_same_rows_as_the_kernels(dtype):
    ids, places = torch.tensor([3, 0, 3], dtype=dtype), torch.tensor([4, 0, 2])
    assert torch.equal(torch_rows.gather(X, ids, None, None, stage="s"), gather_rows(X, ids))
    out = torch.empty(3, 3)
    assert torch_rows.gather(X, ids, out, None, stage="s") is out
    assert torch.equal(out, gather_rows(X, ids))
    mine, theirs = torch.zeros(5, 3), torch.zeros(5, 3)
    torch_rows.gather(X, ids, mine, places, stage="s")
    assert torch.equal(mine, gather_rows(X, ids, out=theirs, places=places))
    rows = torch.ones(3, 3)
    mine, theirs = X.clone(), X.clone()
    assert torch_rows.scatter_add(mine, ids, rows, stage="s") is mine
    assert torch.equal(mine, scatter_add_rows(theirs, ids, rows))


def test_doors_go_where_the_arguments_are():
    x, ids, places = X.to("meta"), torch.tensor([3, 0]).to("meta"), torch.tensor([1, 4]).to("meta")
    assert gather_rows(x, ids).shape == (2, 3)
    assert gather_rows(x, ids).device.type == "meta"
    out = torch.empty(5, 3, device="meta")
    assert gather_rows(x, ids, out=out, places=places) is out
    assert scatter_add_rows(out, ids, gather_rows(x, ids)) is out
    assert empty_rows((2, 3), torch.int16, x.device).device.type == "meta"
    assert empty_rows((2, 3), torch.int16, X.device).device.type == "cpu"
    table = x.clone().requires_grad_()
    gather_rows_with_grad(table, ids).sum().backward()
    assert table.grad is not None
    assert table.grad.device.type == "meta"


META: Any = torch.zeros(2, dtype=torch.int64, device="meta")


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: gather_rows(X, META), r"source to be on meta, as the other .* got a tensor on cpu; pass source.to"),
        (lambda: gather_rows(X.numpy(), META), "source to be a dense tensor of rows on meta, got ndarray"),
        (lambda: gather_rows(X.to("meta")[0, 0], META), r"source to be a dense tensor .* got torch.strided\[\]"),
        (lambda: gather_rows(X.to("meta"), META.float()), "ids to be a 1-d tensor of int32 or int64, got .*float32"),
        (lambda: gather_rows(X.to("meta"), META[None]), r"ids to be a 1-d tensor .* got torch.int64\[1, 2\]"),
        (lambda: gather_rows(X.to("meta"), META, out=torch.zeros(2, 3)), "out to be on meta"),
        (lambda: gather_rows(X.to("meta"), META, out=X.to("meta")), r"out to be torch.float32\[2, 3\]"),
        (lambda: gather_rows(X.to("meta"), META, places=META), "places are those of rows of out; give out too"),
        (lambda: gather_rows(X.to("meta"), META, out=X.to("meta"), places=torch.arange(2)), "places to be on meta"),
        (lambda: scatter_add_rows(X.to("meta"), META, torch.ones(2, 3)), "rows to be on meta"),
        (lambda: scatter_add_rows(X.to("meta"), np.arange(2), X.to("meta")), "ids to be a dense tensor"),
        (lambda: scatter_add_rows(X.to("meta"), META, X.to("meta")), "rows to be .* one row per id"),
        (lambda: scatter_add_rows(X.to("meta"), torch.arange(2), X.to("meta")), "ids to be on meta"),
        (lambda: scatter_add_rows(META, META, META), "out to be .* of a floating point dtype, got torch.int64"),
    ],
)
def test_arguments_in_two_places_are_refused(call, match):
    with pytest.raises(InputError, match=match):
        call()
