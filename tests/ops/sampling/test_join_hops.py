"""The hops of a minibatch as one list of edges, against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import ops
from headrace.ops import reference
from headrace.ops.errors import InputError

EXTREME = [-(2**63), -1, 0, 2**32, 2**63 - 1]


def hops_of(seed, sizes, degree, num_ids, dtype):
    """Hops of random rows; ids repeat within and across hops, some differ in their upper halves alone."""
    random = np.random.default_rng(seed)
    indptrs, indices, edge_ids = [], [], []
    for num_rows in sizes:
        degrees = random.integers(0, degree + 1, num_rows)
        indptr = np.concatenate([[0], np.cumsum(degrees)])
        ids = random.choice([*EXTREME, *range(1, num_ids), *(i << 32 for i in range(num_ids))], indptr[-1])
        indptrs.append(indptr)
        indices.append(random.integers(0, 100, indptr[-1]).astype(dtype))
        edge_ids.append(ids.astype(np.int64))
    return indptrs, indices, edge_ids


def check(hops):
    joined = ops.join_hops(*hops)
    edges, positions = reference.join_hops.join_hops(*hops)
    expected = np.array(edges, np.int64).reshape(-1, 3).T
    assert joined.edge_index.dtype == torch.int64
    assert joined.edge_index.is_contiguous()
    assert np.array_equal(joined.edge_index, expected[:2])
    assert np.array_equal(joined.edge_ids, expected[2])
    assert joined.num_edges == tuple(map(len, positions))
    rows = [torch.arange(len(one)) for one in hops[1]]
    for one, kept, num_checked, right in zip(rows, joined.kept, joined.num_checked, positions, strict=True):
        assert [*kept.tolist(), *one[num_checked:].tolist()] == right
    # Anything that the edges have is joined alike.
    ids = [torch.from_numpy(one) for one in hops[2]]
    if ids:
        assert torch.equal(joined.join(ids), joined.edge_ids)
        assert joined.join([one.double().unsqueeze(1) for one in ids]).shape == (len(edges), 1)


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 8), max_size=4),
    st.sampled_from([0, 3, 40]),
    st.sampled_from([1, 5, 300]),
    st.sampled_from([np.int32, np.int64]),
)
def test_each_edge_once(seed, sizes, degree, num_ids, dtype):
    check(hops_of(seed, sizes, degree, num_ids, dtype))


def test_many_rows():
    """Also where an earlier hop has more rows than a later one."""
    for sizes in ([500, 5_000, 9_000], [3_000, 1_000, 5_000]):
        check(hops_of(0, sizes, 3, 4, np.int32))


def test_rows_of_many_edges():
    """The table of a row grows; numbers of rows before are forgotten."""
    for sizes in ([3, 3, 3], [1, 40]):
        check(hops_of(1, sizes, 5_000, 2_000, np.int32))


def test_one_hop_needs_no_ids():
    joined = ops.join_hops([torch.tensor([0, 2, 2, 3])], [torch.tensor([1, 4, 0], dtype=torch.int32)])
    assert joined.edge_index.tolist() == [[1, 4, 0], [0, 0, 2]]
    assert joined.edge_ids is None
    assert joined.num_edges == (3,)
    assert joined.num_checked == (0,)


def test_sampled_with_replacement_edges_of_one_hop_stay():
    hops = [[np.array([0, 3])] * 2, [np.array([1, 1, 2])] * 2, [np.array([7, 7, 8]), np.array([7, 9, 9])]]
    joined = ops.join_hops(*hops)
    assert joined.edge_ids.tolist() == [7, 7, 8, 9, 9]
    assert joined.num_edges == (3, 2)


def test_strided_arrays():
    indptr, sources = torch.tensor([0, 9, 2, 9, 3])[::2], torch.arange(6, dtype=torch.int32)[::2]
    assert ops.join_hops([indptr], [sources]).edge_index.tolist() == [[0, 2, 4], [0, 0, 1]]


@pytest.mark.parametrize("indptr", [[0, 3], [1, 2], [0, 2, 1, 2], [0, -1, 2], [0, 3, 2], []])
def test_an_indptr_that_bounds_no_rows_is_refused(indptr):
    with pytest.raises(InputError, match="indptr"):
        ops.join_hops([np.array(indptr, np.int64)], [np.zeros(2, np.int32)])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([], [np.zeros(1, np.int32)]), "expected indices of 0 hops"),
        (([np.array([0, 1])], [np.zeros(1, np.int32)], []), "expected edge_ids of 1 hops"),
        (([np.array([0, 0])] * 2, [np.zeros(0, np.int32)] * 2), "several hops need edge_ids"),
        (([np.array([0, 1])], [np.zeros(1, np.int32)], [np.zeros(2, np.int64)]), "edge_ids to have one entry"),
        (([np.array([0, 1])], [np.zeros(1, np.float32)]), r"indices\[0\] to be .* int32 or int64, got float32"),
        ((np.array([0, 1]), [np.zeros(1, np.int32)]), "indptrs to be a list"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(arrays, message):
    with pytest.raises(InputError, match=message):
        ops.join_hops(*arrays)
