"""Graphs and features from NumPy files, of either form."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.pipeline.storage.graph_files import read_graph_files

SRC, DST = np.array([0, 2, 2, 1], np.int32), np.array([1, 1, 0, 4], np.int32)
EXPECTED = hr.Graph.from_coo(SRC, DST, num_nodes=6)
FORMS = {
    "edge_index": {"edge_index": np.stack([SRC, DST]), "num_nodes": np.array(6)},
    "src_dst": {"src": SRC, "dst": DST, "num_nodes": np.array([6])},
    "csc": {"indptr": EXPECTED.indptr.numpy(), "indices": EXPECTED.indices.numpy()},
}
FEATURES = {"x": np.eye(6, 3), "y": np.arange(6), "train_mask": np.arange(6) < 2, "of_edges": np.arange(4)}


def save(path: Path, kind: str, **arrays: object) -> Path:
    if kind == "npz":
        np.savez(path / "graph.npz", **arrays)
        return path / "graph.npz"
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    return path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_what_a_folder_holds_stays_there(tmp_path):
    files = read_graph_files(save(tmp_path, "folder", **FORMS["csc"], **FEATURES))
    maps = Path("/proc/self/maps").read_text()
    assert all(f"{tmp_path}/{name}.npy" in maps for name in ("indptr", "indices", "x"))
    assert files.graph.num_nodes == 6
