"""Shards on disk that are refused: what cannot be cut, what is no shards, what is damaged, what there is not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from ranks import partition

import headrace as hr

from plans import NUM_NODES, graph
from shard_files import write


def test_graphs_and_features_that_cannot_be_cut_are_refused(tmp_path):
    path, owners = tmp_path / "shards", partition("hash", 2)
    for one, message in (
        (graph().shard(owners, 0), "write_shards: this is part 0"),
        (hr.Graph.from_coo([0], [1]), "write_shards: the partition has 200 nodes, the graph 2"),
    ):
        with pytest.raises(hr.InputError, match=message):
            write(path, one, owners)
    long = torch.zeros(NUM_NODES + 1, 2)
    for node, whole, message in (
        ({"x": hr.ShardedFeature.of(long[1:], owners, 0)}, None, "'x' is in shards already"),
        ({"x": long}, None, "row of node feature 'x' for each of 200 nodes, got 201"),
        ({"x": long}, ["z"], "no node feature 'z'"),
    ):
        with pytest.raises(hr.InputError, match=message):
            write(path, graph(), owners, hr.FeatureStore(node=node), whole=whole)
    assert not path.exists()
    write(path, graph(), owners, hr.FeatureStore(node={"x": long}), whole="x")


def changed(folder: Path, **fields: object) -> Path:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**meta, **fields}))
    return folder


def test_what_is_no_shards_is_not_loaded(tmp_path, folder):
    with pytest.raises(hr.InputError, match=r"expected a folder that write_shards made, but .* has no meta\.json"):
        hr.load_shards(tmp_path)
    for part in (-1, 3, "0"):
        with pytest.raises(hr.InputError, match=r"part of .* to be an integer from 0 to 2"):
            hr.load_shards(folder, part)
    for fields, message in (
        ({"num_parts": 2}, None),  # a hash of fewer parts is another one: the arrays have other lengths
        ({"node": {"x": 1}}, "is damaged"),
        ({"indices": "int99"}, "is damaged"),
        ({"partition": "metis"}, "expected partition to be range, hash or table, got 'metis'"),
        ({"partition": "range", "sizes": [1, 2]}, "sizes of 200 nodes in 3 parts, got those of 3 in 2"),
        ({"version": 3}, "version 3, this headrace reads 1 to 2"),
        ({"version": 2}, r"is damaged: KeyError\('node_of_types'\)"),
        ({"edge_types": None}, "version 1 has no edge_types"),
        ({"format": "parquet"}, "something else than headrace shards"),
    ):
        original = (folder / "meta.json").read_text()
        with pytest.raises(hr.InputError, match=message):
            hr.load_shards(changed(folder, **fields), 1)
        (folder / "meta.json").write_text(original)
    (folder / "meta.json").write_text("{")
    with pytest.raises(hr.InputError, match="is no JSON"):
        hr.load_shards(folder)


@pytest.mark.parametrize("memory_map", [False, True])
@pytest.mark.parametrize("file", ["part-1/indptr.npy", "part-1/indices.npy", "part-1/node.x.npy", "whole/edge.e.npy"])
def test_damaged_files_are_refused(folder, file, memory_map):
    path = folder / file
    content = path.read_bytes()
    array = np.load(path)

    def refused(message: str) -> None:
        with pytest.raises(hr.InputError, match=message):
            hr.load_shards(folder, 1, memory_map=memory_map)

    path.write_bytes(content[:-3])
    refused("damaged file")
    path.write_bytes(b"")
    refused("damaged file")
    np.save(path, array[:-1])
    refused(f"expected .* in .*{path.name}, got")
    np.save(path, array.astype(np.int16))
    refused(f"expected {array.dtype}.* in .*{path.name}, got int16")
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    refused("damaged file .*([Oo]bject|pickle)")
    path.unlink()
    refused("there is no such file")


@pytest.mark.parametrize(
    ("cached", "message"),
    [
        ({"y": [1]}, r"node features in shards, \['x'\], got 'y'"),
        ({"z": [1]}, "in shards, .*, got 'z'"),
        ({"x": [NUM_NODES]}, "cached to be nodes below 200, got ids from 200 to 200"),
        ({"x": [0.5]}, "cached to be int32 or int64 ids"),
    ],
)
def test_copies_of_what_there_is_not_are_refused(folder, cached, message):
    with pytest.raises(hr.InputError, match=message):
        hr.load_shards(folder, 1, cached=cached)


class Liar(hr.FeatureSource):
    """A source that returns other rows than it says."""

    dtype, shape = torch.float32, (NUM_NODES, 2)

    def __init__(self, returned):
        self.returned = returned

    def read(self, ids, **options):
        return hr.Rows(self.returned(torch.ones(len(ids), 2)))

    def content_digest(self):
        return "ones"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda rows: rows.double(), r"expected float32\[0, 2\], got pieces of float64\[\d+, 2\]"),
        (lambda rows: rows[:, :1], r"expected float32\[0, 2\], got pieces of float32\[\d+, 1\]"),
        (lambda rows: rows[1:], r"expected \d+ rows, got \d+"),
    ],
    ids=["dtype", "width", "number"],
)
def test_rows_that_were_not_announced_are_refused(returned, message, tmp_path):
    features = hr.FeatureStore(node={"x": Liar(returned)})
    with pytest.raises(hr.InputError, match=message):
        hr.write_shards(tmp_path / "shards", graph(), hr.Partition.hash(NUM_NODES, 2), features, progress=False)
    assert not list(tmp_path.iterdir())
