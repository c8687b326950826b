"""Shards that somebody damaged, by accident or on purpose: errors that name the file, never a hang or a raw error."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.pipeline.storage import load_shards
from headrace.pipeline.storage.shard_meta import SINCE_2

from plans import graph, store, typed_graph, typed_store, with_times

PART = 1
NUM_PARTS = 2
pytestmark = [
    pytest.mark.timeout(30),  # what waits for ever is a failure of its own
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="makes FIFOs"),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """One small graph by kind of partition."""
    folder = tmp_path_factory.mktemp("written")
    num_nodes = graph().num_nodes
    for kind, cut in (
        ("hash", hr.Partition.hash(num_nodes, NUM_PARTS)),
        ("range", hr.Partition.range(num_nodes, NUM_PARTS)),
        ("table", hr.Partition.of(np.arange(num_nodes) % NUM_PARTS, NUM_PARTS)),
    ):
        hr.write_shards(folder / kind, graph(), cut, store(), progress=False)
    cut = hr.Partition.range(num_nodes, NUM_PARTS)
    hr.write_shards(folder / "typed", with_times(typed_graph()), cut, typed_store(), progress=False)
    return folder


def copied(written: Path, kind: str, place: Path) -> Path:
    return Path(shutil.copytree(written / kind, place / "shards"))


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def folder(path: Path) -> None:
    path.mkdir()


FIELDS = [
    "num_nodes", "num_edges", "num_parts", "partition", "sizes", "digest", "indices", "edge_attrs", "node_types",
    "node", "edge", "shared", "parts", "checksum", "version", "format",
]  # fmt: skip
INNER = [("node", "x", "num_rows"), ("node", "x", "whole"), ("node", "x", "rows"), ("node", "y", "digest")]
INNER += [("node", "x", "rows", "dtype"), ("node", "x", "rows", "shape"), ("edge_attrs", "weight", "dtype")]
CASES = [(kind, place) for place in [*((name,) for name in FIELDS), *INNER] for kind in ("hash", "range", "table")]
CASES += [("typed", (name,)) for name in ("version", "node_types", *SINCE_2)]


def test_a_file_that_is_still_being_copied_is_refused(written, tmp_path, monkeypatch):
    """A size that changes while the shards are loaded."""
    shards = copied(written, "hash", tmp_path)
    read_before = shards / f"part-{PART}/indices.npy"
    read = load_shards.ArraySource

    def grow(*arguments, **options):
        longer(read_before)
        return read(*arguments, **options)

    monkeypatch.setattr("headrace.pipeline.storage.load_shards.ArraySource", grow)
    with pytest.raises(hr.InputError, match=r"indices\.npy to keep its \d+ bytes, but it has \d+ now"):
        hr.load_shards(shards, PART)
