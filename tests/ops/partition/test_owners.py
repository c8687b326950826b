"""Owners by hash and ids in the order of their owners, against their oracles."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.ops import group_by_owner, hash_owners, positions_in_parts, reference
from headrace.ops.errors import InputError

pytestmark = pytest.mark.twins


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50), st.integers(1, 2**30))
@example(list(range(100)), 10**9)  # of so many parts each bit of the hashes decides
def test_hash_owners(ids, num_parts):
    array = np.array(ids, dtype=np.int64)
    owners = hash_owners(array, num_parts)
    assert owners.dtype == torch.int32
    assert np.array_equal(owners, reference.hash_owners(array, num_parts))


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 6)), max_size=60), st.integers(7, 9), st.integers(0, 6))
def test_grouping(entries, num_parts, first):
    ids, owners = np.array(entries, dtype=np.int64).reshape(-1, 2).T
    owners = owners.astype(np.int32)
    grouped = group_by_owner(ids, owners, num_parts, first=first)
    expected = reference.group_by_owner(ids, owners, num_parts, first)
    for found, array in zip((grouped.ids, grouped.places, grouped.counts), expected, strict=True):
        assert np.array_equal(found, array)
    assert np.array_equal(positions_in_parts(owners, num_parts), reference.positions_in_parts(owners))


def test_strided_arrays():
    ids, owners = torch.arange(40), torch.arange(20, dtype=torch.int32) % 3
    grouped = group_by_owner(ids[::4], owners[::2], 3)
    assert grouped.ids.tolist() == sorted(ids[::4].tolist(), key=lambda i: (i // 2 % 3, i))
    assert torch.equal(grouped.ids[grouped.places], ids[::4])
    assert grouped.counts.tolist() == torch.bincount(owners[::2], minlength=3).tolist()


def test_other_numbers_of_owners_and_a_part_that_is_none_are_refused():
    with pytest.raises(InputError, match="expected an owner for each of 2 ids, got 1"):
        group_by_owner(np.zeros(2, np.int64), np.zeros(1, np.int32), 3)
    for first in (3, 2**31):
        with pytest.raises(InputError, match=r"first to be in \[0, num_parts\)"):
            group_by_owner(np.zeros(1, np.int64), np.zeros(1, np.int32), 3, first=first)


@pytest.mark.parametrize("owner", [-1, 3])
def test_an_owner_that_is_no_part_is_refused(owner):
    with pytest.raises(InputError, match=r"owners\[1\] = -?\d is no part: expected 0 <= owner < num_parts = 3"):
        group_by_owner(np.zeros(2, np.int64), np.array([0, owner], dtype=np.int32), 3)
    with pytest.raises(InputError, match=r"^positions_in_parts: owners\[1\] = -?\d is no part"):
        positions_in_parts(np.array([0, owner], dtype=np.int32), 3)


@pytest.mark.parametrize("num_parts", [0, 2**30 + 1, -1, 1.5])
def test_a_number_of_parts_that_is_none_is_refused(num_parts):
    with pytest.raises(InputError, match="num_parts"):
        hash_owners(np.zeros(1, np.int64), num_parts)
    with pytest.raises(InputError, match="num_parts"):
        group_by_owner(np.zeros(1, np.int64), np.zeros(1, np.int32), num_parts)
