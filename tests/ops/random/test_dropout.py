"""Dropout masks: the reference's, and elements that are kept independently with the given probability."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import ops
from headrace.ops import reference
from headrace.ops.errors import InputError

pytestmark = pytest.mark.twins


@given(
    st.integers(0, 2**64 - 1),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=12),
    st.integers(0, 40),
    st.floats(0, 1),
    st.integers(1, 3),
)
def test_equals_the_reference(key, ids, width, probability, num_threads):
    array = np.array(ids, dtype=np.int64)
    mask = ops.dropout_mask(key, array, width, probability, num_threads=num_threads)
    assert mask.dtype == torch.bool
    assert np.array_equal(mask, reference.dropout_mask(key, array, width, round(probability * 2**32)))


def test_many_rows_on_threads():
    ids = torch.arange(40_000)
    masks = [ops.dropout_mask(5, ids, 17, 0.3, num_threads=threads) for threads in (1, 4)]
    assert torch.equal(*masks)
    # 680,000 elements: the share kept has a standard deviation of 0.00056.
    assert abs(masks[0].double().mean().item() - 0.7) < 5 * 0.00056
    # Elements of neighbouring rows, and of neighbouring columns, are uncorrelated: 5 / sqrt(680,000) is 0.0061.
    centred = (masks[0].double() - 0.7) / 0.21**0.5
    assert abs((centred[1:] * centred[:-1]).mean().item()) < 0.0061
    assert abs((centred[:, 1:] * centred[:, :-1]).mean().item()) < 0.0062


def test_the_ends():
    ids = torch.arange(100)
    assert ops.dropout_mask(1, ids, 8, 0).all()
    assert not ops.dropout_mask(1, ids, 8, 1).any()


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan"), None, True])
def test_what_is_no_probability_is_refused(probability):
    with pytest.raises(InputError, match=r"probability to be a number in \[0, 1\]"):
        ops.dropout_mask(1, torch.arange(3), 4, probability)
