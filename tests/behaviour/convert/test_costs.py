"""Estimates of a dry run, against what the conversion takes."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from shell import answered
from table_files import write_toml

import headrace as hr

NUM_NODES, NUM_EDGES = 2_000, 30_000


def edges_of(folder: Path, kind: str) -> dict[str, object]:
    """Write edges; return the fields that name them."""
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, NUM_NODES, (2, NUM_EDGES))
    weight = rng.integers(100, 999, NUM_EDGES)
    if kind == "npy":
        np.save(folder / "edges.npy", np.stack([src, dst]))
        np.save(folder / "w.npy", weight)
        return {"columns": {"src": ["edges.npy", 0], "dst": ["edges.npy", 1], "w": "w.npy"}}
    name = "text" if kind == "texts" else ""
    lines = [f"{name}{a},{name}{b},{c}" for a, b, c in zip(src, dst, weight, strict=True)]
    content = "\n".join(["src,dst,w", *lines]).encode()
    path = folder / ("edges.csv.gz" if kind == "packed" else "edges.csv")
    path.write_bytes(gzip.compress(content) if kind == "packed" else content)
    return {"files": path.name}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["npy", "csv", "packed", "texts"])
def test_an_estimate_is_near_what_it_takes(tmp_path, capsys, monkeypatch, kind):
    if kind == "texts":
        pytest.importorskip("duckdb")
    edges = {**edges_of(tmp_path, kind), "weight": "w", "features": "w"}
    for number, options in enumerate(({}, {"undirected": True}, {"reverse": True})):
        nodes = {"num_nodes": NUM_NODES, "external": kind == "texts"}  # which are keys, and no numbers below num_nodes
        sections = {"edges": edges, "nodes": nodes, "options": options}
        source, out = write_toml(tmp_path / "g.toml", sections), tmp_path / f"data{number}"
        dry = answered(capsys, "convert", source, out, "--dry-run")
        sizes, fsync = [], os.fsync

        def measure(descriptor, out=out, sizes=sizes, fsync=fsync):
            files = [one for one in out.parent.rglob("*") if out.name in str(one.relative_to(out.parent))]
            stats = {one.stat().st_ino: one.stat().st_size for one in files if one.is_file()}  # one file has two names
            sizes.append(sum(stats.values()))
            fsync(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", measure)
            hr.convert(source, out, progress=False)
        assert 0.5 < dry["disk"] / max(sizes) < 2, (options, dry["disk"], max(sizes))


def test_the_least_memory_that_is_told_suffices(tmp_path, capsys):
    """It does not depend on the number of nodes: keys that do not fit are on the disk."""
    edges = edges_of(tmp_path, "npy")
    needed = []
    for nodes in ({"num_nodes": NUM_NODES}, {"external": True}):
        source = write_toml(tmp_path / "g.toml", {"edges": edges, "nodes": nodes})
        needed.append(answered(capsys, "convert", source, tmp_path / "data", "--dry-run")["memory_needed"])
    few, many = needed
    assert many < few + (64 << 20)
    hr.convert(source, tmp_path / "data", memory=many + (8 << 20), progress=False)
    with pytest.raises(hr.InputError, match="expected memory for the libraries, which take"):
        hr.convert(source, tmp_path / "other", memory=many - (40 << 20), progress=False)
