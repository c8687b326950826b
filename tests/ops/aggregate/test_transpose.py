"""transpose_csc against the reference."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

from headrace.ops import InputError, reference, transpose_csc

from edge_rows import edge_rows
from strategies import thread_counts

pytestmark = pytest.mark.twins


@given(edge_rows(), thread_counts)
def test_equals_the_reference(rows, num_threads):
    found = transpose_csc(rows.indptr, rows.indices, rows.num_src, num_threads=num_threads)
    expected = reference.aggregate.transpose_csc(*rows.arrays, rows.num_src)
    assert [part.tolist() for part in found] == list(expected)
    assert found.indptr.dtype == torch.int64
    assert found.indices.dtype == found.positions.dtype


def test_there_may_be_more_rows_than_sources():
    found = transpose_csc(torch.arange(6), torch.zeros(5, dtype=torch.int32), 1)
    assert found.indptr.tolist() == [0, 5]
    assert found.indices.tolist() == found.positions.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("indptr", "indices", "message"),
    [
        ([0, 2], [0, 3], r"indices\[1\] = 3 (is no source|has no row): expected 0 <= it < (num_src = )?3"),
        ([0, 2], [0, -1], r"indices\[1\] = -1 (is no source|has no row)"),
        ([0, 2, 1, 2], [0, 1], r"indptr decreases: indptr\[1\] = 2, indptr\[2\] = 1"),
        ([0, 1], [0, 1], r"from 0 to len\(indices\) = 2"),
        ([], [], "num_nodes . 1 entries"),
    ],
)
def test_refuses_what_is_no_csc(indptr, indices, message):
    with pytest.raises(InputError, match=message):
        transpose_csc(torch.tensor(indptr, dtype=torch.int64), torch.tensor(indices, dtype=torch.int64), 3)


def test_refuses_tensors_without_values():
    indptr, indices = (torch.zeros(3, dtype=torch.int64, device="meta") for _ in range(2))
    with pytest.raises(InputError, match="got a tensor on meta"):
        transpose_csc(indptr, indices, 3)
