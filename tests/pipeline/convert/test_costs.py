"""Estimates of a dry run, against what the conversion takes."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import headrace as hr
from headrace.pipeline.convert.convert_tables import convert_tables
from headrace.pipeline.convert.csv_table import CsvTable
from headrace.pipeline.convert.description import Description, EdgeTable, NodeTable, Options
from headrace.pipeline.convert.npy_table import NpyTable
from headrace.pipeline.convert.output import Output

NUM_NODES, NUM_EDGES = 2_000, 30_000


def edges_of(folder, kind):
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, NUM_NODES, (2, NUM_EDGES))
    weight = rng.integers(100, 999, NUM_EDGES)
    if kind == "npy":
        np.save(folder / "edges.npy", np.stack([src, dst]))
        np.save(folder / "w.npy", weight)
        pair = {side: (folder / "edges.npy", place) for place, side in enumerate(("src", "dst"))}
        return NpyTable({**pair, "w": folder / "w.npy"})
    name = "text" if kind == "texts" else ""
    lines = [f"{name}{a},{name}{b},{c}" for a, b, c in zip(src, dst, weight, strict=True)]
    content = "\n".join(["src,dst,w", *lines]).encode()
    path = folder / ("edges.csv.gz" if kind == "packed" else "edges.csv")
    path.write_bytes(gzip.compress(content) if kind == "packed" else content)
    return CsvTable(path)


@pytest.mark.parametrize("kind", ["npy", "csv", "packed", "texts"])
def test_an_estimate_is_near_what_it_takes(tmp_path, monkeypatch, kind):
    if kind == "texts":
        pytest.importorskip("duckdb")
        pytest.importorskip("pyarrow")
    edge = EdgeTable(edges_of(tmp_path, kind), weight="w", features={"f": "w"})
    nodes = NodeTable(num_nodes=NUM_NODES)
    for options in (Options(), Options(undirected=True), Options(reverse=True)):
        description = Description([edge], [nodes], (), options)
        dry = convert_tables(description, tmp_path / "data", dry_run=True, overwrite=True)
        found = []

        def publish(self, *arguments, own=Output.publish, found=found):
            found.append(sum(one.stat().st_size for one in self.folder.parent.rglob("*") if one.is_file()))
            own(self, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(Output, "publish", publish)
            convert_tables(description, tmp_path / "data", progress=False, overwrite=True)
        assert 0.8 < dry.disk / found[0] < 1.3, (options, dry.disk, found)
        assert f"about {dry.disk:,} bytes on the disk" in str(dry)


def test_the_least_memory_is_enough_and_grows_with_keys(tmp_path):
    table = edges_of(tmp_path, "npy")
    few, many = (
        convert_tables(Description([EdgeTable(table)], [node]), tmp_path / "data", dry_run=True).memory_needed
        for node in (NodeTable(num_nodes=NUM_NODES), NodeTable(num_nodes=10**8, external=True))
    )
    assert many > few + 3 * 10**9
    needed = few + (8 << 20)  # what a test takes meanwhile
    convert_tables(Description([EdgeTable(table)]), tmp_path / "data", memory=needed, progress=False)
    with pytest.raises(hr.InputError, match="expected memory for the libraries, which take"):
        convert_tables(Description([EdgeTable(table)]), tmp_path / "other", memory=few - (40 << 20), progress=False)
