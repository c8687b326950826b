"""Parts of another number than there are ranks: what is wrong is named, and the command that cuts them again."""

from __future__ import annotations

import pytest
from part_files import data
from ranks import partition

import headrace as hr
from headrace.pipeline.storage.parts import open_parts


def test_ranks_of_a_job(tmp_path, monkeypatch):
    data().partition(partition("hash", 4), tmp_path / "parts", progress=False)
    monkeypatch.setattr(open_parts, "rank_of_process", lambda rank, world_size: (1, 2))
    with pytest.raises(hr.InputError, match=r"are parts in .*, 4, got 2 ranks; .*`headrace partition .* --parts 2`"):
        hr.open_dataset(tmp_path / "parts")
    assert hr.open_dataset(tmp_path / "parts", rank=3).part.number == 3
    monkeypatch.setattr(open_parts, "rank_of_process", lambda rank, world_size: (3, 4))
    assert hr.open_dataset(tmp_path / "parts").part.number == 3
