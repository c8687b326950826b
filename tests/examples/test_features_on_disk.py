"""Features that stay in a file: it learns, and the statistics say what was read of the disk."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytestmark = pytest.mark.slow

SMALL = ["--nodes", "3000", "--width", "16", "--fanouts", "5,3", "--batch-size", "100", "--hidden", "16"]


@pytest.fixture
def features_on_disk(examples):
    import features_on_disk

    return features_on_disk


def test_it_learns(features_on_disk, tmp_path, capsys):
    accuracies = features_on_disk.main([*SMALL, "--file", str(tmp_path / "x.npy")])
    assert accuracies[-1] > 0.4  # of eight classes
    output = capsys.readouterr().out
    assert re.search(r"x is float32\[3000, 16\] on disk", output)
    for counter in ("bytes_from_disk", "disk_reads", "disk_bytes"):
        assert re.search(rf"{counter}\D*[1-9]", output), counter
    assert np.load(tmp_path / "x.npy", mmap_mode="r").shape == (3000, 16)
