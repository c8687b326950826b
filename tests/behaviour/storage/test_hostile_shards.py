"""Shards that somebody damaged, by accident or on purpose: errors that name the file, never a hang or a raw error."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

import headrace as hr

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


def refused(folder: Path, named: str, memory_map: bool = True) -> None:
    with pytest.raises(hr.InputError) as caught:
        hr.load_shards(folder, PART, memory_map=memory_map)
    message = str(caught.value)
    assert "expected" in message or "must be" in message or "is damaged" in message or "is no JSON" in message
    assert named in message, message


# --- files ------------------------------------------------------------------------------------------------------------


def shorter(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    replace.__name__ = getattr(make, "__name__", "made")
    return replace


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def nothing(path: Path) -> None:
    pass


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def socket_of_unix(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def huge_and_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)


DAMAGES = [shorter, longer, empty]
DAMAGES += [
    instead(make) for make in (fifo, folder, nothing, link_to_itself, link_to_a_device, socket_of_unix, huge_and_sparse)
]
FILES = [
    "meta.json",
    "owners.npy",
    "part-1/part.json",
    "part-1/indptr.npy",
    "part-1/indices.npy",
    "part-1/edge_ids.npy",
    "part-1/edge_attribute.weight.npy",
    "part-1/node.x.npy",
    "whole/node.y.npy",
    "whole/edge.e.npy",
]


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_file_is_named(written, tmp_path, file, damage):
    shards = copied(written, "table", tmp_path)
    damage(shards / file)
    if (file, damage) == ("meta.json", longer):
        named = "no JSON"
    else:
        named = "meta.json" if file == "meta.json" else str(shards / file)
    for memory_map in (True, False):
        refused(shards, named, memory_map)


HEADERS = {
    "deep": "(" * 5000,
    "no_fields": "{}",
    "negative": "{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }",
    "wide": f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({1 << 62},), }}",
    "float": "{'descr': '<i8', 'fortran_order': False, 'shape': (1.5,), }",
    "true": "{'descr': '<i8', 'fortran_order': False, 'shape': (True,), }",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    "dtype": "{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,), }",
    "unclosed": "{'descr': '<i8",
}


@pytest.mark.parametrize("memory_map", [False, True])
@pytest.mark.parametrize("header", HEADERS)
def test_a_hostile_header_is_named(written, tmp_path, header, memory_map):
    shards = copied(written, "hash", tmp_path)
    path = shards / f"part-{PART}/indptr.npy"
    text = HEADERS[header].encode() + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8))
    refused(shards, str(path), memory_map)


# --- meta.json --------------------------------------------------------------------------------------------------------

VALUES = [
    None, True, -1, 0, 1, 1.5, 1 << 31, 1 << 40, 1 << 62, 1 << 63, 1 << 100, "x", "\ud800", "", [], [[]], [-1],
    [1 << 62] * 2, ["a", "b"], {}, {"x": 1}, {"\ud800": {}}, {"x": {}}, {"n" * 300: {"dtype": "float32", "shape": []}},
]  # fmt: skip
#: Fields that shards with types or times have besides.
SINCE_2 = ("edge_types", "node_attrs", "node_of_types", "edge_of_types")
FIELDS = [
    "num_nodes", "num_edges", "num_parts", "partition", "sizes", "digest", "indices", "edge_attrs", "node_types",
    "node", "edge", "shared", "parts", "checksum", "version", "format",
]  # fmt: skip
INNER = [("node", "x", "num_rows"), ("node", "x", "whole"), ("node", "x", "rows"), ("node", "y", "digest")]
INNER += [("node", "x", "rows", "dtype"), ("node", "x", "rows", "shape"), ("edge_attrs", "weight", "dtype")]
CASES = [(kind, place) for place in [*((name,) for name in FIELDS), *INNER] for kind in ("hash", "range", "table")]
CASES += [("typed", (name,)) for name in ("version", "node_types", *SINCE_2)]
#: Values that may be lists of counts of types, or of features of types.
LISTS = [
    [["a", 1]], [[["a", "b"], 1000]], [["a", 200]], [["a", 200], ["a", 0]], [[["a", "b", "c"], 1500]], [["a", -1]], [1],
    [{"type": "a"}], [{"type": 1, "name": "x"}], [{"type": "c", "name": "x", "rows": {"dtype": "int8", "shape": []},
    "num_rows": 3, "whole": False, "digest": ""}],
]  # fmt: skip
UNBOUND = {"checksum", "shared", "parts"}
DTYPES = ["qint8", "quint4x2", "bits8", "int99", "Tensor", "float64"]


def checksum_of(fields: dict) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]


def with_value(fields: dict, place: tuple[str, ...], value: object) -> dict:
    name, *rest = place
    inner = with_value(fields[name], tuple(rest), value) if rest else value
    return {**fields, name: inner}


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["checksum", "checksum of the forger", "none, as shards of before"])
@pytest.mark.parametrize(("kind", "place"), CASES, ids=lambda one: one if isinstance(one, str) else ".".join(one))
def test_a_field_of_meta_that_lies_is_refused(written, tmp_path, place, kind, bound):
    """Each field with each value: refused by name, or it loads what it says; no hang, no raw error."""
    if bound.startswith("none") and place[0] in UNBOUND:
        return
    shards = copied(written, kind, tmp_path)
    original = json.loads((shards / "meta.json").read_text())
    if bound.startswith("none"):
        original = {name: value for name, value in original.items() if name not in UNBOUND}
    if "checksum" in original:
        assert original["checksum"] == checksum_of({name: one for name, one in original.items() if name != "checksum"})
    written_value = reduce(lambda inner, name: inner[name], place, original)
    values = [*VALUES, *(DTYPES if place[-1] in ("dtype", "indices") else []), *(LISTS if kind == "typed" else [])]
    loaded = []
    for value in values:
        fields = with_value(original, place, value)
        if bound == "checksum of the forger" and place != ("checksum",):
            fields["checksum"] = checksum_of({name: one for name, one in fields.items() if name != "checksum"})
        (shards / "meta.json").write_text(json.dumps(fields))
        try:
            hr.load_shards(shards, PART)
        except hr.InputError as error:
            assert str(shards) in str(error)  # noqa: PT017
        else:
            loaded.append(value)
    if bound == "checksum":
        # Without a checksum it is one of before.
        assert set(map(json.dumps, loaded)) <= {json.dumps(written_value), "null" if place == ("checksum",) else ""}
    elif place[0] in ("num_nodes", "num_parts", "indices", "partition", "version", "format"):
        assert set(map(json.dumps, loaded)) <= {json.dumps(written_value)}


TEXTS = {
    "infinity": '"num_edges": Infinity',
    "minus_infinity": '"num_edges": -Infinity',
    "nan": '"num_nodes": NaN',
    "overflow": '"num_nodes": 1e999',
    "digits": f'"num_nodes": {"9" * 100_000}',
    "deep": f'"sizes": {"[" * 100_000}{"]" * 100_000}',
    "deep_objects": '"node": ' + '{"a":' * 100_000 + "1" + "}" * 100_000,
    "deeper_than_repr": f'"sizes": {"[" * 900}{"]" * 900}',
    "bytes": '"digest": "\udcff"',
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kept", [True, False], ids=["beside the fields", "alone"])
def test_texts_that_are_no_meta(written, tmp_path, text, kept):
    shards = copied(written, "hash", tmp_path)
    original = (shards / "meta.json").read_text()
    changed = f"{original.rstrip().removesuffix('}')}, {TEXTS[text]}}}" if kept else f"{{{TEXTS[text]}}}"
    (shards / "meta.json").write_text(changed, errors="surrogateescape")
    refused(shards, "meta.json")


# --- values -----------------------------------------------------------------------------------------------------------


def unbound(shards: Path, **changes: object) -> None:
    """Take away the fingerprints, as in shards of before there were any."""
    fields = json.loads((shards / "meta.json").read_text())
    fields = {name: value for name, value in fields.items() if name not in UNBOUND}
    (shards / "meta.json").write_text(json.dumps({**fields, **changes}))


@pytest.mark.parametrize("edge", [-1, graph().num_edges, np.iinfo(np.int32).max])
def test_edge_ids_out_of_range(written, tmp_path, edge):
    shards = copied(written, "hash", tmp_path)
    unbound(shards)
    path = shards / f"part-{PART}/edge_ids.npy"
    ids = np.load(path)
    ids[-1] = edge
    np.save(path, ids)
    with pytest.raises(hr.InputError, match=r"expected .*edge_ids\.npy to be in \[0, 1500\), got edge ids from"):
        hr.load_shards(shards, PART)


@pytest.mark.parametrize("change", [(0, 1), (-1, -7), (3, 1 << 62), (-1, 1 << 62)])
def test_an_indptr_that_does_not_rise(written, tmp_path, change):
    shards = copied(written, "range", tmp_path)
    unbound(shards)
    path = shards / f"part-{PART}/indptr.npy"
    indptr = np.load(path)
    indptr[change[0]] = change[1]
    np.save(path, indptr)
    with pytest.raises(hr.InputError, match=r"expected .*indptr\.npy to rise from 0 to at most 1500 edges, got"):
        hr.load_shards(shards, PART)


def test_sources_and_owners_out_of_range(written, tmp_path):
    shards = copied(written, "table", tmp_path)
    unbound(shards)
    path = shards / f"part-{PART}/indices.npy"
    indices = np.load(path)
    np.save(path, np.where(np.arange(len(indices)) == 5, 10_000, indices).astype(indices.dtype))
    with pytest.raises(hr.InputError, match=rf"part-{PART} is damaged: .*10000.*copy the part once more"):
        hr.load_shards(shards, PART)
    np.save(shards / "owners.npy", np.full(graph().num_nodes, 7, np.int32))
    with pytest.raises(hr.InputError, match=r"owners\.npy is damaged: .*got 7 to 7"):
        hr.load_shards(shards, PART)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at what is mapped")
def test_replaced_shards_stay_with_those_who_mapped_them(written, tmp_path):
    shards = copied(written, "hash", tmp_path)
    before = hr.load_shards(shards, PART)
    hr.write_shards(shards, graph(), hr.Partition.range(200, NUM_PARTS), store(), overwrite=True, progress=False)
    assert before.graph == graph().shard(hr.Partition.hash(200, NUM_PARTS), PART)
