"""Fingerprints of arrays: whatever differs, name, dtype, shape or bytes, makes another one."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from headrace.pipeline.data.digest import SAMPLE_ROWS, SAMPLED_ABOVE_BYTES, exact_digest, flat_bytes, sampled_digest

# The same sixteen bytes, under different names, dtypes and shapes.
SAME_BYTES = [
    ("x", torch.ones(4, dtype=torch.float32)),
    ("z", torch.ones(4, dtype=torch.float32)),
    ("x", torch.ones(4, dtype=torch.float32).view(torch.int32)),
    ("x", torch.ones(4, dtype=torch.float32).view(torch.int64)),
    ("x", torch.ones(4, dtype=torch.float32).view(torch.uint8)),
    ("x", torch.ones(4, dtype=torch.float32).view(torch.bfloat16)),
    ("x", torch.ones(4, dtype=torch.float32).view(torch.float16)),
    ("x", torch.ones(2, 2, dtype=torch.float32)),
    ("x", torch.ones(1, 4, dtype=torch.float32)),
]


@pytest.mark.parametrize("digest", [exact_digest, sampled_digest])
def test_names_dtypes_and_shapes_count_where_bytes_are_equal(digest):
    assert len({digest([array]) for array in SAME_BYTES}) == len(SAME_BYTES)


def test_the_dtype_of_a_large_array_counts():
    zeros = torch.zeros(2 * SAMPLED_ABOVE_BYTES // 4, dtype=torch.int32)
    digests = {sampled_digest([("x", array)]) for array in (zeros, zeros.view(torch.float32))}
    assert len(digests) == 2


@pytest.mark.parametrize("digest", [exact_digest, sampled_digest])
def test_two_arrays_are_not_one(digest):
    rows = torch.arange(4.0)
    cuts = [[("x", rows[:cut]), ("x", rows[cut:])] for cut in range(5)]
    assert len({digest(arrays) for arrays in [*cuts, [("x", rows)]]}) == 6


def test_tensors_and_numpy_arrays_are_alike():
    rows = np.arange(6.0).reshape(2, 3)
    assert sampled_digest([("x", rows)]) == sampled_digest([("x", torch.from_numpy(rows))])


@pytest.mark.parametrize("dtype", [np.int32, np.float64, np.bool_])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_arrays_of_numpy(dtype, shape):
    """NumPy may give them strides of 0, of which torch makes no view of bytes."""
    array = np.empty(shape, dtype)
    expected = sampled_digest([("x", torch.empty(shape, dtype=torch.from_numpy(array).dtype))])
    assert sampled_digest([("x", torch.from_numpy(array))]) == expected
    assert sampled_digest([("x", array)]) == expected
    assert exact_digest([("x", torch.from_numpy(array))])


def test_one_element_has_one_digest_whatever_its_stride():
    """Torch takes it for contiguous, and views no bytes of it."""
    column = torch.arange(10).view(5, 2)[:1, 1]
    assert column.is_contiguous()
    assert column.stride() == (2,)
    assert exact_digest([("x", column)]) == exact_digest([("x", torch.tensor([1]))])
    assert flat_bytes(column).tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    whole = torch.arange(4)
    assert flat_bytes(whole).data_ptr() == whole.data_ptr()


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.int64,
        torch.complex64,
        torch.complex128,
    ],
)
@pytest.mark.parametrize("form", ["vector", "rows", "every second entry", "columns first", "conjugate"])
def test_a_sample_has_the_digest_of_its_rows(dtype, form):
    """Whatever the dtype and the strides: a large array is marked as one whose rows are cut out first."""
    many = torch.arange(3 * SAMPLED_ABOVE_BYTES // dtype.itemsize, device="cpu").to(dtype)
    array = {
        "vector": many,
        "rows": many.reshape(-1, 3),
        "every second entry": many[::2],
        "columns first": many.reshape(3, -1).T,
        "conjugate": many.conj() if dtype.is_complex else many,
    }[form]
    rows = torch.linspace(0, len(array) - 1, SAMPLE_ROWS, dtype=torch.float64).long()
    state = hashlib.sha256(f"x\0{str(dtype).removeprefix('torch.')}\0{tuple(array.shape)}\0".encode())
    state.update(flat_bytes(array[rows].resolve_conj()).numpy())
    assert sampled_digest([("x", array)]) == state.hexdigest()[:32]


def test_a_sample_starts_no_threads_of_torch():
    """They spin behind their work and would keep a sampler, which comes next, from its cores."""
    array = torch.zeros(SAMPLED_ABOVE_BYTES)
    with profile(activities=[ProfilerActivity.CPU]) as events:
        sampled_digest([("x", array)])
    assert not {event.key for event in events.key_averages()} & {"aten::index", "aten::index_select", "aten::take"}
