"""Parts that are written in many pieces, and files that change while they are opened."""

from __future__ import annotations

import pytest
from part_files import data
from ranks import partition

import headrace as hr
from headrace.pipeline.storage.parts import open_parts

from plans import graph, store


def test_pieces_make_up_the_whole(tmp_path, monkeypatch):
    data()  # saved before, in pieces of the usual size
    for module in ("parts.write_parts", "dataset.write_dataset", "dataset.folder_writer"):
        monkeypatch.setattr(f"headrace.pipeline.storage.{module}.PIECE_BYTES", 1000)
    monkeypatch.setattr("headrace.ops.graphs.rows.PIECE_EDGES", 70)
    owners = partition("table", 2)
    data().partition(owners, tmp_path / "parts", progress=False)
    shards = hr.open_dataset(tmp_path / "parts", rank=0)
    assert shards.graph == graph().shard(owners, 0)
    assert shards.part.partition == owners
    assert shards.store.node["x"] == hr.ShardedFeature.of(store().node["x"].rows_in_place, owners, 0)
    assert shards.store.node["y"] == store().node["y"]
    assert shards.store.edge["e"] == hr.ShardedFeature.of(store().edge["e"].rows_in_place, shards.graph.edges)


def test_a_file_that_is_still_being_copied_is_refused(tmp_path, monkeypatch):
    """A size that changes while the part is opened."""
    data().partition(partition("hash", 2), tmp_path / "parts", progress=False)
    read_before = tmp_path / "parts/part-1/graph.indices.npy"
    decode = open_parts.with_scale

    def grow(*arguments):
        with read_before.open("ab") as file:
            file.write(b"\0")
        return decode(*arguments)

    monkeypatch.setattr(open_parts, "with_scale", grow)
    with pytest.raises(hr.InputError, match=r"indices\.npy to keep its \d+ bytes, but it has \d+ now"):
        hr.open_dataset(tmp_path / "parts", rank=1)
