"""Shards know which part and which write they are of: what was exchanged is refused by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from regular_shards import OWNERS

import headrace as hr

from plans import graph, store

# Parts of equal numbers of nodes, so that shapes give nothing away.


@pytest.fixture(params=list(OWNERS))
def shards(request, two_writes, tmp_path):
    """A copy of the first write, and the second one."""
    folder = two_writes / request.param
    return Path(shutil.copytree(folder / "0", tmp_path / "shards")), folder / "1"


FILES = ["indptr.npy", "indices.npy", "edge_ids.npy", "edge_attribute.w.npy", "node.x.npy"]


def same(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("memory_map", [False, True])
def test_the_folder_of_another_part_is_refused(shards, memory_map):
    folder, _ = shards
    shutil.rmtree(folder / "part-0")
    shutil.copytree(folder / "part-1", folder / "part-0")
    with pytest.raises(hr.InputError, match=r"expected part 0 in .*part-0, got part 1, by part\.json; copy each"):
        hr.load_shards(folder, 0, memory_map=memory_map)
    hr.load_shards(folder, 1, memory_map=memory_map)


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_another_part_is_refused(shards, file):
    folder, _ = shards
    path, other = folder / "part-0" / file, folder / "part-1" / file
    if same(path, other):
        assert file == "indptr.npy"  # of a regular graph they are one
        return
    shutil.copy(other, path)
    with pytest.raises(
        hr.InputError, match=rf"expected in .*part-0/{file} what write_shards wrote there, got something"
    ):
        hr.load_shards(folder, 0)


@pytest.mark.parametrize("file", ["part.json", *FILES])
def test_a_file_of_another_write_is_refused(shards, file):
    folder, other = shards
    path, foreign = folder / "part-0" / file, other / "part-0" / file
    if same(path, foreign):
        assert file == "indptr.npy"
        return
    shutil.copy(foreign, path)
    with pytest.raises(hr.InputError, match=rf"expected .*part-0/{file} "):
        hr.load_shards(folder, 0)


@pytest.mark.parametrize("name", ["part-0", "meta.json", "whole/node.y.npy", "owners.npy"])
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
        hr.InputError, match=r"(write_shards as meta\.json, got that of another|what write_shards wrote)"
    ):
        hr.load_shards(folder, 0)


def test_rows_copied_from_another_part_are_checked_as_well(shards):
    folder, _ = shards
    shutil.copy(folder / "part-0" / "node.x.npy", folder / "part-1" / "node.x.npy")
    ids = hr.load_shards(folder, 0).partition.owned(1)[:3]
    with pytest.raises(hr.InputError, match=r"expected in .*part-1/node\.x\.npy what write_shards wrote there"):
        hr.load_shards(folder, 0, cached={"x": ids})


def test_shards_of_before_there_were_fingerprints_load(tmp_path):
    owners = OWNERS["table"]
    hr.write_shards(tmp_path / "shards", graph(), owners, store(), progress=False)
    expected = hr.load_shards(tmp_path / "shards", 1)
    meta = json.loads((tmp_path / "shards/meta.json").read_text())
    for name in ("shared", "parts", "checksum"):
        del meta[name]
    assert meta["version"] == 1
    (tmp_path / "shards/meta.json").write_text(json.dumps(meta))
    for part in (0, 1):
        (tmp_path / f"shards/part-{part}/part.json").unlink()
    loaded = hr.load_shards(tmp_path / "shards", 1, cached={"x": owners.owned(0)[:5]})
    assert loaded.graph == expected.graph
    assert loaded.store.content_digest() == expected.store.content_digest()


def test_a_changed_field_is_refused(tmp_path):
    hr.write_shards(tmp_path / "shards", graph(), OWNERS["range"], store(), progress=False)
    meta = json.loads((tmp_path / "shards/meta.json").read_text())
    (tmp_path / "shards/meta.json").write_text(json.dumps({**meta, "num_edges": graph().num_edges + 1}))
    with pytest.raises(
        hr.InputError, match=r"expected .*meta\.json as write_shards wrote it, but its fields do not match"
    ):
        hr.load_shards(tmp_path / "shards", 0)
