"""Arguments of `Dataset.partition` and `open_dataset` that are something else: errors name each, and what to write."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import headrace as hr

GRAPH = hr.Graph.from_coo([0, 1, 2], [1, 2, 0])
PARTITION = hr.Partition.hash(3, 2)
STORE = hr.FeatureStore(node={"x": torch.eye(3)})


@pytest.fixture
def data(tmp_path):
    hr.save_dataset(tmp_path / "data", GRAPH, STORE, progress=False)
    return hr.open_dataset(tmp_path / "data")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"partition": 2},
            r"to be an hr\.Partition, or an hr\.EdgePartition, got int; make one: hr\.Partition",
        ),
        ({"partition": torch.tensor([0, 1, 0])}, r"got Tensor; make one"),
        ({"folder": PARTITION}, r"folder to be a path, got HashPartition; write data\.partition\(partition, folder\)"),
        ({"whole": 5}, "whole to be names of features, such as .*, got int"),
        ({"whole": {"x": 1}}, "whole to be names of features, .*, got dict"),
        ({"features": torch.tensor(1)}, r"features to be names of features, .*, got int64\[\]"),
        ({"overwrite": 1}, "overwrite"),
    ],
)
def test_other_kinds(tmp_path, data, options, message):
    arguments = {"partition": PARTITION, "folder": tmp_path / "parts", **options}
    with pytest.raises(hr.InputError, match=message):
        data.partition(**arguments)
    assert not (tmp_path / "parts").exists()


def test_what_is_no_folder_of_parts(tmp_path, data):
    parts, other = tmp_path / "parts", tmp_path / "other"
    data.partition(PARTITION, parts, progress=False)
    other.mkdir()
    np.save(other / "x.npy", np.eye(2))
    for path, message in (
        (GRAPH, "expected path to be a folder, got Graph; name it"),
        (other / "none", r"expected a folder with dataset\.json, but .* cannot be read"),
        (parts / "parts.json", f"name its folder, {parts}$"),
        (tmp_path, "these below it have one: data, parts; name one of them"),
        (other, "name a folder that hr.save_dataset or headrace convert made"),
    ):
        with pytest.raises(hr.InputError, match=message):
            hr.open_dataset(path, rank=0)
    with pytest.raises(hr.InputError, match=r"expected cached to be nodes by the name of a feature, got list"):
        hr.open_dataset(parts, rank=0, cached=["x"])
    with pytest.raises(hr.InputError, match=r"expected parts of a graph for cached=, got the data set"):
        hr.open_dataset(tmp_path / "data", cached={"x": [0]})


def test_shards_of_before_are_named(tmp_path):
    """What `write_shards` of headrace 0.1 wrote."""
    (tmp_path / "meta.json").write_text(json.dumps({"format": "headrace shards", "version": 1}))
    with pytest.raises(hr.InputError, match=r"shards of headrace 0\.1, .*, `headrace partition DATA OUT --parts P`"):
        hr.open_dataset(tmp_path, rank=0)
