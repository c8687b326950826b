"""Owners by hash and ids in the order of their owners, against their oracles."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import ops
from headrace.ops import reference
from headrace.ops.errors import InputError


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50), st.integers(1, 2**30))
def test_hash_owners(ids, num_parts):
    array = np.array(ids, dtype=np.int64)
    owners = ops.hash_owners(array, num_parts)
    assert owners.dtype == torch.int32
    assert np.array_equal(owners, reference.hash_owners(array, num_parts))


@given(st.lists(st.integers(0, 6), max_size=60), st.integers(7, 9))
def test_grouping(owners, num_parts):
    array = np.array(owners, dtype=np.int32)
    order, counts = ops.group_by_owner(array, num_parts)
    expected_order, expected_counts = reference.group_by_owner(array, num_parts)
    assert np.array_equal(order, expected_order)
    assert np.array_equal(counts, expected_counts)
    assert np.array_equal(ops.positions_in_parts(array, num_parts), reference.positions_in_parts(array))


def test_strided_arrays():
    owners = torch.arange(20, dtype=torch.int32) % 3
    order, counts = ops.group_by_owner(owners[::2], 3)
    assert owners[::2][order].tolist() == sorted(owners[::2].tolist())
    assert counts.tolist() == torch.bincount(owners[::2], minlength=3).tolist()


@pytest.mark.parametrize("owner", [-1, 3])
def test_an_owner_that_is_no_part_is_refused(owner):
    with pytest.raises(InputError, match=r"owners\[1\] = -?\d is no part: expected 0 <= owner < num_parts = 3"):
        ops.group_by_owner(np.array([0, owner], dtype=np.int32), 3)


@pytest.mark.parametrize("num_parts", [0, 2**30 + 1, -1, 1.5])
def test_a_number_of_parts_that_is_none_is_refused(num_parts):
    for function, dtype in ((ops.hash_owners, np.int64), (ops.group_by_owner, np.int32)):
        with pytest.raises(InputError, match="num_parts"):
            function(np.zeros(1, dtype), num_parts)
