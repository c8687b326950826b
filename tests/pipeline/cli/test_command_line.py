"""The command `headrace`: shards that load, a report, and errors of one line."""

from __future__ import annotations

import errno

import numpy as np
import pytest
from shell import main

from headrace.pipeline.cli import cut

NUM_NODES = 60


@pytest.fixture
def data(tmp_path):
    """Two cliques of 30, one edge between them, all training nodes in one."""
    one = np.stack(np.meshgrid(np.arange(30), np.arange(30))).reshape(2, -1)
    arrays = {
        "edge_index": np.concatenate([one, one + 30, [[0], [30]]], axis=1),
        "x": np.random.default_rng(0).random((NUM_NODES, 4), np.float32),
        "y": np.arange(NUM_NODES) % 3,
        "train_mask": np.arange(NUM_NODES) < 20,
    }
    np.savez(tmp_path / "graph.npz", **arrays)
    return tmp_path / "graph.npz"


def run(*arguments: object) -> int:
    return main(["partition", *map(str, arguments)])


def test_an_error_of_writing_names_the_folder(data, tmp_path, capsys, monkeypatch):
    def write(*_, **__):
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(cut, "write_parts", write)
    assert run(data, tmp_path / "out", "--parts", 2) == 2
    assert f"File too large; nothing is kept of {tmp_path / 'out'}, which was being written" in capsys.readouterr().err
