"""Times of graphs: what counts as one, the order that integers keep, and rows sorted by them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.pipeline.data.times import as_times, earliest_of, ordered

FLOATS = st.floats(allow_nan=False)
LARGEST = torch.iinfo(torch.int64).max


@given(st.lists(FLOATS, min_size=2, max_size=2))
def test_floating_point_keeps_its_order(pair):
    first, second = ordered(as_times(torch.tensor(pair, dtype=torch.float64), "times", hr.InputError)).tolist()
    assert (first < second) == (pair[0] < pair[1])
    assert (first == second) == (pair[0] == pair[1])


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_integers_of_any_width(dtype):
    times = as_times(torch.tensor([3, 100], dtype=dtype), "times", hr.InputError)
    assert times.dtype == torch.int64
    assert times.tolist() == [3, 100]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floating_point_of_any_width(dtype):
    times = as_times(torch.tensor([0.5, -math.inf], dtype=dtype), "times", hr.InputError)
    assert times.dtype == torch.float64
    assert times.tolist() == [0.5, -math.inf]


def test_a_window_does_not_wrap_around():
    times = torch.tensor([-LARGEST, 0, LARGEST])
    assert earliest_of(times, LARGEST).tolist() == [-LARGEST - 1, -LARGEST, 0]
    assert earliest_of(times, 1 << 80).tolist() == [-LARGEST - 1, -LARGEST, 0]
    assert earliest_of(times, 0).tolist() == times.tolist()
    assert earliest_of(torch.tensor([1.0], dtype=torch.float64), math.inf).tolist() == [-math.inf]
