"""Arguments of `write_shards` and `load_shards` that are something else: errors name each, and what to write."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import headrace as hr

GRAPH = hr.Graph.from_coo([0, 1, 2], [1, 2, 0])
PARTITION = hr.Partition.hash(3, 2)
STORE = hr.FeatureStore(node={"x": torch.eye(3)})


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("gpsf", "expected path to be the path of a folder, got a Graph; graph to be .*; write write_shards\\(path, "),
        ("gfps", "expected path to be the path of a folder, got a Graph; graph to be a headrace.Graph, got a .*Path"),
        ("fpgs", "expected graph to be a headrace.Graph, got a HashPartition; partition to be .*, got a Graph"),
        ("fgsp", "expected partition to be a .*, got a FeatureStore; store to be a .*, got a HashPartition"),
    ],
)
def test_other_orders(tmp_path, order, message):
    given = {"f": tmp_path / "shards", "g": GRAPH, "p": PARTITION, "s": STORE}
    with pytest.raises(hr.InputError, match=message):
        hr.write_shards(*(given[one] for one in order))
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition": 2}, r"partition to be a headrace\.Partition, got 2; make one of it: headrace\.Partition\.of"),
        ({"partition": torch.tensor([0, 1, 0])}, r"got int64\[3\]; make one of it"),
        ({"store": {"x": torch.eye(3)}}, r"store to be a headrace\.FeatureStore, got a dict; wrap the arrays"),
        ({"path": None}, "path to be the path of a folder, got None"),
        ({"whole": 5}, "whole to be names of node features, such as .*, got 5"),
        ({"whole": {"x": 1}}, "whole to be names of node features, .*, got a dict"),
    ],
)
def test_other_kinds(tmp_path, options, message):
    given = {"path": tmp_path / "shards", "graph": GRAPH, "partition": PARTITION, "store": STORE, **options}
    with pytest.raises(hr.InputError, match=message):
        hr.write_shards(**given)
    assert not (tmp_path / "shards").exists()


def test_what_is_no_folder_of_shards(tmp_path):
    shards, other = tmp_path / "shards", tmp_path / "other"
    hr.write_shards(shards, GRAPH, PARTITION, STORE)
    other.mkdir()
    np.save(other / "x.npy", np.eye(2))
    for path, message in (
        (GRAPH, "expected the path of a folder that write_shards made, got a Graph; write load_shards"),
        (other / "none", "does not exist; name the folder that write_shards was given"),
        (other / "x.npy", "is a file; name the folder of shards$"),
        (shards / "meta.json", f"is a file; name the folder of shards, {shards}"),
        (shards / "part-0", f"the folder above it has one; name that, {shards}"),
        (tmp_path, "these below it have one: shards; name one of them"),
        (other, r"has no meta\.json .*; write shards with write_shards or by headrace partition"),
    ):
        with pytest.raises(hr.InputError, match=message):
            hr.load_shards(path, 0)
    with pytest.raises(hr.InputError, match=r"expected cached to be nodes by the name of a feature, .* got a list"):
        hr.load_shards(shards, 0, cached=["x"])


@pytest.mark.parametrize(("version", "advice"), [(3, "; update headrace, or write them"), (0, "; write them again")])
def test_shards_of_another_version(tmp_path, version, advice):
    hr.write_shards(tmp_path / "shards", GRAPH, PARTITION, STORE)
    meta = tmp_path / "shards" / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "version": version}))
    with pytest.raises(hr.InputError, match=f"shards of version {version}, this headrace reads 1 to 2{advice}"):
        hr.load_shards(tmp_path / "shards", 0)
