"""Features in .npy files: what the source says of itself, what it refuses, how it travels, and batches from it."""

from __future__ import annotations

import numpy as np
import torch

import headrace as hr
from headrace.ops import _native
from headrace.ops.features.disk_rows import DEFAULT_GAP, MOST_GAP
from headrace.pipeline.storage.disk_feature import LARGE_BYTES, MANY_IDS

ROWS = np.arange(60, dtype=np.float32).reshape(20, 3)


def test_the_gap_is_measured_where_many_rows_of_a_large_file_are_read(tmp_path):
    rows = (LARGE_BYTES >> 10) + 1
    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (rows, 256)).flush()
    np.save(tmp_path / "small.npy", ROWS)
    many, few = torch.arange(MANY_IDS), torch.arange(MANY_IDS - 1)
    x, given = hr.DiskFeature(tmp_path / "x.npy"), hr.DiskFeature(tmp_path / "x.npy", gap_bytes=DEFAULT_GAP - 1)
    x.read(few)
    assert x.gap_bytes == DEFAULT_GAP
    reads = x.read(many)
    assert x.gap_bytes != DEFAULT_GAP
    assert 0 <= x.gap_bytes <= MOST_GAP
    # It decides which rows are one read.
    far = 2 + x.gap_bytes // 1024
    assert x.read(torch.tensor([0, far])).counts["disk_reads"] == 2
    if far > 3:
        assert x.read(torch.tensor([0, far - 2])).counts["disk_reads"] == 1
    given.read(many)
    small = hr.DiskFeature(tmp_path / "small.npy")
    small.read(torch.zeros(MANY_IDS, dtype=torch.int64))
    assert (given.gap_bytes, small.gap_bytes) == (DEFAULT_GAP - 1, DEFAULT_GAP)
    assert reads.rows.shape == (MANY_IDS, 256)


def test_the_engine_is_the_best_of_the_system(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    assert hr.DiskFeature(tmp_path / "x.npy").engine == ("io_uring" if _native.has_io_uring() else "threads")
