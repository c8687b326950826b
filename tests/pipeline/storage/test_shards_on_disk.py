"""Shards on disk: what is loaded is what was cut, and nothing half written or foreign is taken for shards."""

from __future__ import annotations

from ranks import partition

import headrace as hr

from plans import graph, store
from shard_files import write


def test_pieces_make_up_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.pipeline.storage.write_shards.PIECE_BYTES", 1000)
    monkeypatch.setattr("headrace.ops.graphs.rows.PIECE_EDGES", 70)
    owners = partition("table", 2)
    shards = hr.load_shards(write(tmp_path / "shards", graph(), owners, store()), 0)
    assert shards.graph == graph().shard(owners, 0)
    assert shards.partition == owners
    assert shards.store.node["x"] == hr.ShardedFeature.of(store().node["x"].rows_in_place, owners, 0)
    assert shards.store.node["y"] == store().node["y"]
    assert shards.store.edge["e"] == store().edge["e"]
