"""Shards know which part and which write they are of: what was exchanged is refused by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from regular_shards import OWNERS, regular

import headrace as hr

# Parts of equal numbers of nodes, so that shapes give nothing away.


@pytest.fixture(params=list(OWNERS))
def shards(request, two_writes, tmp_path):
    """A copy of the first write, and the second one."""
    folder = two_writes / request.param
    return Path(shutil.copytree(folder / "0", tmp_path / "shards")), folder / "1"


def test_large_arrays_are_told_apart_by_samples(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.pipeline.data.digest.SAMPLED_ABOVE_BYTES", 100)
    monkeypatch.setattr("headrace.pipeline.data.digest.SAMPLE_ROWS", 8)
    one, features = regular(0)
    hr.write_shards(tmp_path / "shards", one, OWNERS["range"], features, progress=False)
    loaded = hr.load_shards(tmp_path / "shards", 0)
    assert loaded.graph == one.shard(OWNERS["range"], 0)
    shutil.copy(tmp_path / "shards/part-1/node.x.npy", tmp_path / "shards/part-0/node.x.npy")
    with pytest.raises(hr.InputError, match=r"part-0/node\.x\.npy what write_shards wrote"):
        hr.load_shards(tmp_path / "shards", 0)
