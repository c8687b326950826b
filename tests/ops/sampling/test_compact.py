"""Renumbering by first occurrence."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import Compactor, InputError, _native, compact, reference, unique_and_inverse

pytestmark = pytest.mark.twins

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


def test_ids_may_be_any_integers():
    """Those that mark free slots of tables among them."""
    seen = torch.tensor([-1, 5, 2**63 - 1])
    neighbors = torch.tensor([3, -1, -(2**63), 5, -1, -2, 3, 0])
    ids, indices = reference.compact(seen.numpy(), neighbors.numpy())
    found = compact(seen, neighbors)
    assert found.ids.tolist() == ids.tolist()
    assert found.indices.tolist() == indices.tolist()
    for first in range(0, 20_000, 1_000):  # some of these would share a slot with -1
        many = compact(torch.tensor([-1]), torch.arange(first, first + 300))
        assert many.indices.tolist() == list(range(1, 301))


def test_input_is_not_changed():
    neighbors = torch.tensor([5, 7, 5])
    compact(torch.tensor([7]), neighbors)
    assert neighbors.tolist() == [5, 7, 5]


def test_refuses_seen_ids_twice():
    with pytest.raises(InputError, match=r"seen\[0\] and seen\[2\] are both 4; expected unique ids"):
        compact(torch.tensor([4, 1, 4]), torch.tensor([1]))


def test_refuses_other_dtypes():
    with pytest.raises(InputError, match=r"compact: expected neighbors to be .* got float32"):
        compact(torch.tensor([4]), torch.tensor([1.0]))


nodes = st.integers(0, 40)


@given(
    st.lists(st.tuples(st.lists(nodes, unique=True), st.lists(nodes, max_size=200)), min_size=1, max_size=4),
    st.sampled_from(["int32", "int64"]),
    st.sampled_from([1, 2**31 - 30, 2**31]),
    st.sampled_from([0, 41]),
)
def test_compactor_equals_reference(calls, dtype, first_number, most_slots):
    """Call after call, also where the running numbers end, with one slot per node and with a table."""
    compactor = _native.Compactor(41, first_number, most_slots)
    for seen, neighbors in calls:
        ids, indices = compactor.compact(np.array(seen, np.int64), np.array(neighbors, dtype))
        expected = reference.compact(np.array(seen, np.int64), np.array(neighbors, np.int64))
        assert ids.tolist() == expected[0].tolist()
        assert indices.tolist() == expected[1].tolist()
        assert indices.dtype == dtype


@pytest.mark.cpu  # scratch memory is the CPU's
def test_compactor_in_threads():
    """Each call has a node map of its own, and they are all kept."""
    compactor = Compactor(5_000)
    calls = [torch.randint(0, 5_000, (20_000,), generator=torch.Generator().manual_seed(i)) for i in range(8)]
    seen = torch.arange(100)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda ids: compactor.compact(seen, ids), calls * 4))
    for call, result in zip(calls * 4, found, strict=True):
        expected = compact(seen, call)
        assert torch.equal(result.ids, expected.ids)
        assert torch.equal(result.indices, expected.indices)
    assert compactor.scratch_bytes % (4 * 5_000) == 0
    assert 4 * 5_000 <= compactor.scratch_bytes <= 4 * 4 * 5_000


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_compactor_refuses_what_is_no_node(dtype):
    compactor = Compactor(5)
    for value in (-1, 5):
        with pytest.raises(InputError, match=rf"neighbors\[1\] = {value} is no node: expected 0 <= id < 5"):
            compactor.compact(np.array([0]), np.array([4, value], dtype))
    with pytest.raises(InputError, match=r"seen\[0\] = 5 is no node"):
        compactor.compact(np.array([5]), np.array([], dtype))
    with pytest.raises(InputError, match=r"seen\[1\] and seen\[5\] are both 3"):
        compactor.compact(np.array([4, 3, 2, 1, 0, 3, 3, 3]), np.array([], dtype))  # more than there are nodes
    with pytest.raises(InputError, match="num_nodes"):
        Compactor(-1)


def test_misaligned_ids_are_copied():
    """As numpy.frombuffer of a file with a header of odd length gives them; kernels read whole words."""
    ids = np.frombuffer(b"#" + np.array([5, 7, 5]).tobytes(), np.int64, offset=1)
    unique, inverse = unique_and_inverse(ids)
    assert unique.tolist() == [5, 7]
    assert inverse.tolist() == [0, 1, 0]
