"""Parts know which they are, and of which cut: what was exchanged is refused by name."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
import torch
from part_files import write
from regular_parts import OWNERS

import headrace as hr

# Parts of equal numbers of nodes, so that shapes give nothing away.


@pytest.fixture(params=list(OWNERS))
def shards(request, two_writes, tmp_path):
    """A copy of the first write, and the second one."""
    folder = two_writes / request.param
    return Path(shutil.copytree(folder / "0", tmp_path / "parts")), folder / "1"


FILES = ["graph.indptr.npy", "graph.indices.npy", "graph.edge_ids.npy", "edge_attribute.w.npy", "node.x.npy"]


def same(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("memory_map", [False, True])
def test_the_folder_of_another_part_is_refused(shards, memory_map):
    folder, _ = shards
    shutil.rmtree(folder / "part-0")
    shutil.copytree(folder / "part-1", folder / "part-0")
    with pytest.raises(hr.InputError, match=r"expected part 0 in .*part-0, got part 1; copy each"):
        hr.open_dataset(folder, rank=0, memory_map=memory_map)
    hr.open_dataset(folder, rank=1, memory_map=memory_map)


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_another_part_is_refused(shards, file):
    folder, _ = shards
    path, other = folder / "part-0" / file, folder / "part-1" / file
    if same(path, other):
        assert file == "graph.indptr.npy"  # of a regular graph they are one
        return
    shutil.copy(other, path)
    with pytest.raises(hr.InputError, match=rf"expected in .*part-0/{file} what was written there, got something"):
        hr.open_dataset(folder, rank=0)


@pytest.mark.parametrize("file", ["dataset.json", *FILES])
def test_a_file_of_another_write_is_refused(shards, file):
    folder, other = shards
    path, foreign = folder / "part-0" / file, other / "part-0" / file
    if same(path, foreign):
        assert file == "graph.indptr.npy"
        return
    shutil.copy(foreign, path)
    with pytest.raises(hr.InputError, match=rf"expected .*part-0/{file} "):
        hr.open_dataset(folder, rank=0)


@pytest.mark.parametrize("name", ["part-0", "parts.json", "node.y.npy", "owners.npy"])
def test_two_writes_do_not_mix(shards, name):
    folder, other = shards
    if not (other / name).exists():
        assert (name, folder.parent.name) != ("owners.npy", "table")
        return
    path = folder / name
    if path.is_dir():
        shutil.rmtree(path)
        shutil.copytree(other / name, path)
    else:
        shutil.copy(other / name, path)
    with pytest.raises(
        hr.InputError, match=r"(of the cut \w{8} as parts\.json is, got that of another|what was written there)"
    ):
        hr.open_dataset(folder, rank=0)


def test_rows_copied_from_another_part_are_checked_as_well(shards):
    folder, _ = shards
    shutil.copy(folder / "part-0" / "node.x.npy", folder / "part-1" / "node.x.npy")
    ids = hr.open_dataset(folder, rank=0).part.partition.owned(1)[:3]
    with pytest.raises(hr.InputError, match=r"expected in .*part-1/node\.x\.npy what was written there"):
        hr.open_dataset(folder, rank=0, cached={"x": ids})


def test_a_large_array_of_another_part_is_told_by_verify(tmp_path):
    """Above 4 MiB opening compares shapes alone."""
    x = torch.arange(2 * 1_100_000).float().reshape(-1, 1).expand(-1, 2)
    whole = hr.Graph.from_coo([0, 1], [1, 0], num_nodes=len(x))
    write(tmp_path / "parts", whole, hr.Partition.range(len(x), 2), hr.FeatureStore(node={"x": x}))
    shutil.copy(tmp_path / "parts/part-1/node.x.npy", tmp_path / "parts/part-0/node.x.npy")
    data = hr.open_dataset(tmp_path / "parts", rank=0)
    with pytest.raises(hr.InputError, match=r"verify: expected in .*part-0/node\.x\.npy the bytes of its checksum"):
        data.verify()
    hr.open_dataset(tmp_path / "parts", rank=1).verify()


def test_the_checksum_of_a_part_is_that_of_its_manifest(shards):
    folder, _ = shards
    for rank in range(2):
        manifest = (folder / f"part-{rank}" / "dataset.json").read_bytes()
        assert hr.open_dataset(folder, rank=rank).checksum == hashlib.sha256(manifest).hexdigest()
