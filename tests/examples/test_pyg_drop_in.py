"""PyG's training loop learns on the loader of headrace, and is told the same by any number of workers."""

from __future__ import annotations

import importlib.util

import pytest

from launched import run_example

pytest.importorskip("torch_geometric")
pytestmark = pytest.mark.slow


def test_learns_where_pyg_lib_and_torch_sparse_are_absent(data):
    assert importlib.util.find_spec("pyg_lib") is None
    assert importlib.util.find_spec("torch_sparse") is None
    arguments = ("--data", data, "--epochs", "4", "--batch-size", "40")
    lines = run_example("pyg_drop_in.py", *arguments, imports=("torch_geometric",))
    assert float(lines[-1].removeprefix("test accuracy ")) > 0.9
    more = run_example("pyg_drop_in.py", *arguments, "--num-workers", "2", imports=("torch_geometric",))
    assert more == lines
