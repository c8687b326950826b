"""Rows of dtypes that NumPy lacks are on disk what they were, or are no numbers: never integers without a word."""

from __future__ import annotations

import numpy as np
import torch

from headrace.pipeline.data.narrow_dtypes import of_numpy
from headrace.pipeline.storage.array_file import read_array


def rows_of(dtype: torch.dtype) -> torch.Tensor:
    """Return rows of many bits, [8, 3]."""
    return torch.arange(8 * 3 * dtype.itemsize, dtype=torch.uint8).view(dtype).view(8, 3)


def bits_of(rows: torch.Tensor) -> list[int]:
    return rows.contiguous().view(torch.uint8).flatten().tolist()


def test_files_of_before_hold_integers_and_are_read_as_what_is_said_of_them(tmp_path):
    rows = rows_of(torch.bfloat16)
    np.save(tmp_path / "x.npy", rows.view(torch.int16).numpy())
    read = read_array(tmp_path / "x.npy", torch.bfloat16, (8, 3), memory_map=True)
    assert bits_of(read) == bits_of(rows)


def test_records_of_other_names_or_sizes_are_none_of_them():
    for fields in (
        [("bfloat16", "<u4")],
        [("weight", "<u2")],
        [("bfloat16", "<f2")],
        [("bfloat16", "<u2"), ("b", "<u2")],
    ):
        assert of_numpy(np.dtype(fields)) is None
    assert of_numpy(np.dtype([("float32", "<u4")])) is None  # NumPy has it
    assert of_numpy(np.dtype(np.uint16)) is None
