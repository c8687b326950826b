"""Parts on disk that are refused: what cannot be cut, what is no parts, what is damaged, what there is not."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from ranks import partition

import headrace as hr

from plans import NUM_NODES, graph, store


def saved(path: Path) -> hr.Dataset:
    hr.save_dataset(path, graph(), store(), progress=False)
    return hr.open_dataset(path)


def test_what_cannot_be_cut_is_refused(tmp_path, folder):
    path, owners, data = tmp_path / "other", partition("hash", 2), saved(tmp_path / "data")
    for one, cut, options, message in (
        (hr.open_dataset(folder, rank=0), owners, {}, "partition: this is part 0 of a graph already"),
        (data, hr.Partition.hash(2, 2), {}, "partition: the partition has 2 nodes, the graph 200"),
        (data, owners, {"whole": ["z"]}, "no node feature 'z'"),
        (data, owners, {"features": ["x", "z"]}, "expected features among 'x', 'y', 'e', got 'z'"),
    ):
        with pytest.raises(hr.InputError, match=message):
            one.partition(cut, path, **options)
    assert not path.exists()


def changed(folder: Path, file: str, **fields: object) -> Path:
    described = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**described, **fields}))
    return folder


def test_what_is_no_parts_is_not_opened(tmp_path, folder):
    for rank in (-1, 3, "0"):
        with pytest.raises(hr.InputError, match=r"rank, of the parts in .* to be an integer from 0 to 2"):
            hr.open_dataset(folder, rank=rank)
    table, listed = (
        {"kind": "table", "table": None, "digest": ""},
        json.loads((folder / "parts.json").read_text())["parts"],
    )
    for fields, message in (
        ({"num_parts": 2}, r"expected parts to be those of 2 folders, part-0 on"),
        ({"num_parts": 0}, r"expected num_parts from 1 to 65536, got 0"),
        ({"features": {"x": 1}}, "expected features to be a list, got"),
        ({"owners": {**table, "kind": "metis"}}, "owners.kind to be range, hash or table, .*, got 'metis'"),
        ({"owners": table}, "of tables alone a table, got 'table'"),
        ({"num_edges": 7}, "expected parts of 200 nodes and 7 edges together, got 200 and 1500"),
        ({"parts": [{**part, "num_edges": 7} for part in listed]}, r"1500 edges together, got 200 and 21"),
        ({"identity": "0"}, "expected fields as they were written, got others than those of the identity"),
        ({"notes": {"a": 1}}, "expected fields as they were written, got others than those of the identity"),
        ({"version": 2}, r"expected version 3 in .*parts\.json, got 2; make the parts anew, by headrace partition"),
        ({"version": True}, r"expected version 3 in .*parts\.json, got True"),
        ({"more": 1}, "expected no field 'more'"),
        ({"format": "parquet"}, "expected the format 'headrace parts' in"),
    ):
        original = (folder / "parts.json").read_text()
        with pytest.raises(hr.InputError, match=message):
            hr.open_dataset(changed(folder, "parts.json", **fields), rank=1)
        (folder / "parts.json").write_text(original)
    (folder / "parts.json").write_text("{")
    with pytest.raises(hr.InputError, match=r"expected JSON in .*parts\.json"):
        hr.open_dataset(folder, rank=0)
    (folder / "parts.json").unlink()
    with pytest.raises(hr.InputError, match=r"expected a folder with parts\.json, but .* cannot be read"):
        hr.open_dataset(folder, rank=0)


def test_what_has_to_be_named(folder):
    """One process that opens parts would have a third of the graph, and not know it."""
    with pytest.raises(hr.InputError, match=r"as many ranks as there are parts in .*, 3, got one rank; .*name a part"):
        hr.open_dataset(folder)


def test_a_part_that_is_not_there(folder):
    shutil.rmtree(folder / "part-1")
    with pytest.raises(hr.InputError, match=r"expected part 1, that of rank 1, but there is no .*part-1/dataset\.json"):
        hr.open_dataset(folder, rank=1)
    with pytest.raises(hr.InputError, match=r"expected the folder of part 1 for rank=1, got that of part 0"):
        hr.open_dataset(folder / "part-0", rank=1)
    with pytest.raises(hr.InputError, match=r"Graph\.load: expected a data set, got a part"):
        hr.Graph.load(folder / "part-0")


def test_a_data_set_that_is_replaced_while_it_is_cut(tmp_path):
    """The parts are those of what was opened, and say so."""
    data = saved(tmp_path / "data")
    other = hr.FeatureStore(node={"x": torch.zeros(NUM_NODES, 2)})
    hr.save_dataset(tmp_path / "data", graph(), other, overwrite=True, progress=False)
    data.partition(partition("hash", 2), tmp_path / "data/parts/two", progress=False)
    with pytest.raises(hr.InputError, match=r"or of one that was replaced since"):
        hr.open_dataset(tmp_path / "data/parts/two", rank=0)


@pytest.mark.parametrize("more", [-5, 5])
def test_features_of_another_number_of_rows(tmp_path, more):
    rows = hr.FeatureStore(node={"x": torch.zeros(NUM_NODES + more, 2)})
    with pytest.raises(hr.InputError, match=rf"'x'.* 200 nodes, got {NUM_NODES + more}|'x'.*{NUM_NODES + more}"):
        replace(saved(tmp_path / "data"), store=rows).partition(
            partition("hash", 2), tmp_path / "parts", progress=False
        )
    assert not (tmp_path / "parts").exists()


def test_two_ranges_are_two_cuts(tmp_path):
    data, identities = saved(tmp_path / "data"), set()
    for number, sizes in enumerate(((50, 150), (150, 50))):
        data.partition(hr.Partition.range_of(sizes), tmp_path / str(number), progress=False)
        identities.add(hr.open_dataset(tmp_path / str(number), rank=0).part.identity)
    assert len(identities) == 2


def test_parts_of_a_data_set_that_was_replaced(tmp_path):
    data = saved(tmp_path / "data")
    data.partition(partition("hash", 2), tmp_path / "data/parts/two", progress=False)
    shutil.copytree(tmp_path / "data/parts", tmp_path / "kept")
    other = hr.FeatureStore(node={"x": torch.zeros(NUM_NODES, 2)})
    hr.save_dataset(tmp_path / "data", graph(), other, overwrite=True, progress=False)
    assert not (tmp_path / "data/parts").exists()
    shutil.copytree(tmp_path / "kept", tmp_path / "data/parts")
    with pytest.raises(hr.InputError, match=r"or of one that was replaced since; cut it again, .* --parts 2`"):
        hr.open_dataset(tmp_path / "data/parts/two", rank=0)
    assert hr.open_dataset(tmp_path / "kept/two", rank=0).store.node["x"].shape == store().node["x"].shape


@pytest.mark.parametrize("memory_map", [False, True])
@pytest.mark.parametrize(
    "file", ["part-1/graph.indptr.npy", "part-1/graph.indices.npy", "part-1/node.x.npy", "part-1/edge.e.npy"]
)
def test_damaged_files_are_refused(folder, file, memory_map):
    path = folder / file
    content = path.read_bytes()
    array = np.load(path)

    def refused(message: str) -> None:
        with pytest.raises(hr.InputError, match=message):
            hr.open_dataset(folder, rank=1, memory_map=memory_map)

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
        hr.open_dataset(folder, rank=1, cached=cached)
