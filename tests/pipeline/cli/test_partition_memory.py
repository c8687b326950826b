"""Partitions of data sets in little memory: the same files, a peak below the limit, and what cannot keep to one."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from shell import main
from small_datasets import saved

import headrace as hr
from headrace.pipeline.convert import memory
from headrace.pipeline.convert.memory import maps_within, resident
from headrace.pipeline.storage.array_file import open_array


def partition(*arguments: object) -> int:
    return main(["partition", *map(str, arguments)])


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["hash", "range", "stream"])
@pytest.mark.parametrize("kind", ["plain", "typed"])
def test_parts_are_the_same_in_any_memory(kind, method, tmp_path, monkeypatch):
    data = saved(tmp_path / "set", kind)[0]
    assert partition(data.path, tmp_path / "free", "--parts", 3, "--method", method) == 0
    monkeypatch.setattr(memory, "MARGIN", 1 << 40)  # pages are let go all the time
    monkeypatch.setattr(memory, "_LOOKS_EVERY", 0.0)
    assert partition(data.path, tmp_path / "kept", "--parts", 3, "--method", method, "--memory", "4GB") == 0
    assert files_of(tmp_path / "kept") == files_of(tmp_path / "free")


def mapped_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[2])
    return pages * 4096


def test_pages_of_maps_are_let_go_above_the_limit(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(8 << 20))
    before = mapped_bytes()
    array = open_array(tmp_path / "a.npy", memory_map=True)
    expected = int(array.sum())
    assert mapped_bytes() - before > 50 << 20
    with maps_within(None), maps_within(resident() + memory.MARGIN + (1 << 30)):
        time.sleep(0.05)
        assert mapped_bytes() - before > 50 << 20
    with maps_within(resident() + memory.MARGIN - (1 << 20)):
        ends = time.monotonic() + 20
        while mapped_bytes() - before > 10 << 20:
            assert time.monotonic() < ends
            time.sleep(0.001)
    assert int(array.sum()) == expected


MEASURED = """
import sys
from pathlib import Path
import torch
from headrace.pipeline.cli import cut
from headrace.pipeline.cli.command_line import main
from headrace.pipeline.convert.memory import APART, MARGIN, resident
folder, method = sys.argv[1:]
limit = resident() + APART + MARGIN + (64 << 20)
assert main(["partition", folder, "--parts", "4", "--method", method, "--memory", str(limit), "--overwrite"]) == 0
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024 / limit)
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.uninstrumented
def test_memory_is_kept(tmp_path):
    """Of a graph of twice the limit."""
    num_nodes, num_edges = 1_000_000, 60_000_000
    rng = np.random.default_rng(0)
    indptr = np.linspace(0, num_edges, num_nodes + 1).astype(np.int64)
    indices = rng.integers(0, num_nodes, num_edges, dtype=np.int32)
    graph = hr.Graph.from_csc(indptr, indices, edge_attrs={"weight": rng.random(num_edges, np.float32)})
    store = hr.FeatureStore(node={"x": rng.random((num_nodes, 32), np.float32)})
    hr.save_dataset(tmp_path / "data", graph, store, progress=False)
    for method in ("hash", "range", "stream"):
        command = [sys.executable, "-c", MEASURED, str(tmp_path / "data"), method]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert float(run.stdout.splitlines()[-1]) <= 1.1  # it is another thread that lets go
