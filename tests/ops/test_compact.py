"""Renumbering by first occurrence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import InputError, compact, reference, unique_and_inverse

small_ids = st.integers(-5, 40)
any_ids = st.one_of(small_ids, st.integers(-(2**63), 2**63 - 1))


@given(
    st.lists(small_ids, unique=True, max_size=30),
    st.lists(small_ids, max_size=200),
    st.sampled_from(["int32", "int64"]),
)
def test_compact_equals_reference(seen, neighbors, dtype):
    result = compact(torch.tensor(seen, dtype=torch.int64), torch.tensor(neighbors, dtype=getattr(torch, dtype)))
    ids, indices = reference.compact(np.array(seen, np.int64), np.array(neighbors, np.int64))
    assert result.ids.tolist() == ids.tolist()
    assert result.indices.tolist() == indices.tolist()
    assert str(result.indices.dtype) == f"torch.{dtype}"


@given(st.lists(any_ids, max_size=200))
def test_unique_and_inverse_equals_reference(ids):
    unique, inverse = unique_and_inverse(torch.tensor(ids, dtype=torch.int64))
    expected = reference.unique_and_inverse(np.array(ids, np.int64))
    assert unique.tolist() == expected[0].tolist()
    assert inverse.tolist() == expected[1].tolist()


def test_many_ids_with_a_common_stride():
    """Strides of powers of two are what a weak hash folds together; the table has to grow on the way."""
    ids = torch.arange(50_000) * 2**20
    unique, inverse = unique_and_inverse(torch.cat([ids, ids.flip(0)]))
    assert torch.equal(unique, ids)
    assert torch.equal(inverse[:50_000], torch.arange(50_000))
    assert torch.equal(inverse[50_000:], torch.arange(50_000).flip(0))


def test_ids_that_differ_in_their_upper_halves_alone():
    """The table compares lower halves first; it grows several times while both kinds of ids are in it."""
    low = np.arange(3_000)
    high = np.arange(1, 41) << 32
    ids = np.concatenate([low, (low[:, None] % 50 + high).ravel(), low])
    unique, inverse = unique_and_inverse(torch.from_numpy(ids))
    expected = reference.unique_and_inverse(ids)
    assert np.array_equal(unique.numpy(), expected[0])
    assert np.array_equal(inverse.numpy(), expected[1])


def test_input_is_not_changed():
    neighbors = torch.tensor([5, 7, 5])
    compact(torch.tensor([7]), neighbors)
    assert neighbors.tolist() == [5, 7, 5]


def test_refuses_seen_ids_twice():
    with pytest.raises(InputError, match=r"seen\[0\] and seen\[2\] are both 4; expected unique ids"):
        compact(torch.tensor([4, 1, 4]), torch.tensor([1]))


def test_refuses_other_dtypes():
    with pytest.raises(InputError, match=r"compact: neighbors must be .* got float32"):
        compact(torch.tensor([4]), torch.tensor([1.0]))


def test_misaligned_ids_are_copied():
    """As numpy.frombuffer of a file with a header of odd length gives them; kernels read whole words."""
    ids = np.frombuffer(b"#" + np.array([5, 7, 5]).tobytes(), np.int64, offset=1)
    unique, inverse = unique_and_inverse(ids)
    assert unique.tolist() == [5, 7]
    assert inverse.tolist() == [0, 1, 0]
