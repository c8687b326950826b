"""Marks of the contents of arrays, by which writes are seen."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headrace.pipeline.data.digest import content_mark


def test_large_arrays_are_compared_by_a_sample():
    array = torch.zeros(1 << 20, dtype=torch.int64)
    before = content_mark(array, 1 << 20)
    array[::3] += 1
    assert content_mark(array, 1 << 20) != before
    before = content_mark(array, 1 << 20)
    array[1] += 1
    assert content_mark(array, 1 << 20) == before


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bfloat16, torch.bool, torch.int8])
@pytest.mark.parametrize("size", [0, 1, 5, 1024, 5000, 1024 * 33 + 7])
def test_marks_are_of_every_value(dtype, size):
    values = (torch.arange(size) % 2).to(dtype)
    mark = content_mark(values, 1 << 30)
    assert content_mark(values.clone(), 1 << 30) == mark
    assert content_mark(torch.cat([values, values[:1]]), 1 << 30) != mark or not size
    for place in {0, size // 2, size - 1} & set(range(size)):
        changed = values.clone()
        changed[place] = 1 - values[place].float()
        assert content_mark(changed, 1 << 30) != mark
    swapped = values.flip(0)
    assert (content_mark(swapped, 1 << 30) == mark) == torch.equal(swapped, values)


def test_marks_see_changes_that_add_up_to_nothing():
    values = np.zeros(4096, np.int64)
    mark = content_mark(torch.from_numpy(values), 1 << 30)
    values[100:103] = 1, -2, 1
    assert content_mark(torch.from_numpy(values), 1 << 30) != mark
