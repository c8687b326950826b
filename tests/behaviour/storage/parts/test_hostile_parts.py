"""Parts that somebody damaged, by accident or on purpose: errors that name the file, never a hang or a raw error."""

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
from part_files import write

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
        write(folder / kind, graph(), cut, store())
    cut = hr.Partition.range(num_nodes, NUM_PARTS)
    write(folder / "typed", with_times(typed_graph()), cut, typed_store())
    return folder


def copied(written: Path, kind: str, place: Path) -> Path:
    return Path(shutil.copytree(written / kind, place / "parts"))


def refused(folder: Path, named: str, memory_map: bool = True) -> None:
    with pytest.raises(hr.InputError) as caught:
        hr.open_dataset(folder, rank=PART, memory_map=memory_map)
    message = str(caught.value)
    assert "expected" in message or "is damaged" in message
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
    "parts.json",
    "owners.npy",
    "node.y.npy",
    f"part-{PART}/edge.e.npy",
    "part-1/dataset.json",
    "part-1/graph.indptr.npy",
    "part-1/graph.indices.npy",
    "part-1/graph.edge_ids.npy",
    "part-1/edge_attribute.weight.npy",
    "part-1/node.x.npy",
]


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_file_is_named(written, tmp_path, file, damage):
    parts = copied(written, "table", tmp_path)
    damage(parts / file)
    for memory_map in (True, False):
        refused(parts, str(parts / file), memory_map)


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
    parts = copied(written, "hash", tmp_path)
    path = parts / f"part-{PART}/graph.indptr.npy"
    text = HEADERS[header].encode() + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8))
    refused(parts, str(path), memory_map)


# --- parts.json and dataset.json --------------------------------------------------------------------------------------

VALUES = [
    None, True, -1, 0, 1, 1.5, 1 << 31, 1 << 40, 1 << 62, 1 << 63, 1 << 100, "x", "\ud800", "", [], [[]], [-1],
    [1 << 62] * 2, ["a", "b"], {}, {"x": 1}, {"\ud800": {}}, {"x": {}}, {"n" * 300: {"dtype": "float32", "shape": []}},
    [["a", 1]], [[["a", "b"], 1000]], [["a", 200]], [["a", 200], ["a", 0]], [[["a", "b", "c"], 1500]], [["a", -1]],
    [{"type": "a"}], [{"type": 1, "name": "x"}], {"kind": "hash", "table": None}, {"kind": "range", "table": None},
]  # fmt: skip
SET_FIELDS = [
    "format", "version", "identity", "source", "num_parts", "num_nodes", "num_edges", "node_types", "edge_types",
    "graph_digest", "owners", "node_attrs", "features", "items", "ids", "notes", "parts",
]  # fmt: skip
PART_FIELDS = [
    ("num_nodes",), ("num_edges",), ("node_types",), ("edge_types",), ("graph",), ("features",), ("part",),
    ("graph", "indptr"), ("graph", "indices"), ("graph", "edge_ids"), ("graph", "edge_attrs"), ("graph", "node_ids"),
    ("part", "identity"), ("part", "part"), ("part", "num_parts"), ("part", "num_own"), ("part", "num_own_of_types"),
    ("part", "num_edges"), ("graph", "indptr", "shape"), ("graph", "indptr", "dtype"), ("graph", "indptr", "file"),
    ("graph", "indptr", "sha256"),
]  # fmt: skip
KINDS = ("hash", "range", "table", "typed")
#: Values that nothing contradicts: other notes and digests, and a data set that is not there to compare with.
FREE = {"notes", "source", "graph_digest"}


def with_value(fields: dict, place: tuple[str, ...], value: object) -> dict:
    name, *rest = place
    inner = with_value(fields[name], tuple(rest), value) if rest else value
    return {**fields, name: inner}


def identity_of(fields: dict) -> str:
    bound = {name: one for name, one in fields.items() if name not in ("format", "version", "identity", "parts")}
    return hashlib.sha256(json.dumps(bound, sort_keys=True).encode()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("forged", [False, True], ids=["as it was", "of the forger"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("field", SET_FIELDS)
def test_a_field_of_the_set_that_lies_is_refused(written, tmp_path, field, kind, forged):
    """Each field with each value: refused by name, or it opens what it says; no hang, no raw error."""
    parts = copied(written, kind, tmp_path)
    original = json.loads((parts / "parts.json").read_text())
    assert original["identity"] == identity_of(original)
    opened = []
    for value in VALUES:
        fields = with_value(original, (field,), value)
        if forged and field != "identity":
            fields["identity"] = identity_of(fields)
        (parts / "parts.json").write_text(json.dumps(fields))
        try:
            hr.open_dataset(parts, rank=PART)
        except hr.InputError as error:
            assert str(parts) in str(error)  # noqa: PT017
        else:
            opened.append(value)
    if field not in FREE:
        empty = [{}, []] if forged and field in ("items", "ids", "features", "node_attrs", "owners") else []
        hidden = VALUES[-2:] if forged and field == "owners" else []
        assert all(value in [original[field], *empty, *hidden] for value in opened), opened
    elif not forged:
        assert all(value == original[field] for value in opened)


@pytest.mark.slow
@pytest.mark.parametrize("forged", [False, True], ids=["as it was", "of the forger"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PART_FIELDS, ids=".".join)
def test_a_field_of_a_part_that_lies_is_refused(written, tmp_path, place, kind, forged):
    parts = copied(written, kind, tmp_path)
    file = parts / f"part-{PART}/dataset.json"
    original, described = (json.loads(one.read_text()) for one in (file, parts / "parts.json"))
    for value in VALUES:
        fields = with_value(original, place, value)
        file.write_text(json.dumps(fields))
        if forged:
            described["parts"][PART]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
            (parts / "parts.json").write_text(json.dumps(described))
        try:
            hr.open_dataset(parts, rank=PART)
        except hr.InputError as error:
            assert str(parts) in str(error)  # noqa: PT017
        else:
            assert forged
            assert place in FORGED or value == reduce(lambda inner, name: inner[name], place, original), value


#: What an owner of the folder can write without that anything contradicts it.
FORGED = {("graph", "edge_attrs"), ("features",), ("graph", "indptr", "sha256")}


TEXTS = {
    "infinity": '"num_edges": Infinity',
    "minus_infinity": '"num_edges": -Infinity',
    "nan": '"num_nodes": NaN',
    "overflow": '"num_nodes": 1e999',
    "digits": f'"num_nodes": {"9" * 100_000}',
    "deep": f'"parts": {"[" * 100_000}{"]" * 100_000}',
    "deep_objects": '"owners": ' + '{"a":' * 100_000 + "1" + "}" * 100_000,
    "deeper_than_repr": f'"parts": {"[" * 900}{"]" * 900}',
    "bytes": '"graph_digest": "\udcff"',
}


@pytest.mark.parametrize("file", ["parts.json", f"part-{PART}/dataset.json"])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kept", [True, False], ids=["beside the fields", "alone"])
def test_texts_that_are_no_manifest(written, tmp_path, text, kept, file):
    parts = copied(written, "hash", tmp_path)
    original = (parts / file).read_text()
    changed = f"{original.rstrip().removesuffix('}')}, {TEXTS[text]}}}" if kept else f"{{{TEXTS[text]}}}"
    (parts / file).write_text(changed, errors="surrogateescape")
    refused(parts, file)


# --- values -----------------------------------------------------------------------------------------------------------


def forge(parts: Path, file: str, array: np.ndarray) -> None:
    """Write an array of a part, or of all, with the checksums that say it was so."""
    np.save(parts / file, array)
    digest = hashlib.sha256((parts / file).read_bytes()).hexdigest()
    described = json.loads((parts / "parts.json").read_text())
    if "/" in file:
        manifest = parts / file.split("/", maxsplit=1)[0] / "dataset.json"
        fields = json.loads(manifest.read_text())
        name = file.removesuffix(".npy").split("graph.")[1]
        fields["graph"][name]["sha256"] = digest
        manifest.write_text(json.dumps(fields))
        described["parts"][PART]["sha256"] = hashlib.sha256(manifest.read_bytes()).hexdigest()
    else:
        described["owners"]["table"]["sha256"] = digest
        described["identity"] = identity_of(described)
        manifest = parts / f"part-{PART}/dataset.json"
        fields = json.loads(manifest.read_text())
        fields["part"]["identity"] = described["identity"]
        manifest.write_text(json.dumps(fields))
        described["parts"][PART]["sha256"] = hashlib.sha256(manifest.read_bytes()).hexdigest()
    (parts / "parts.json").write_text(json.dumps(described))


@pytest.mark.parametrize("edge", [-1, graph().num_edges, np.iinfo(np.int32).max])
def test_edge_ids_out_of_range(written, tmp_path, edge):
    parts = copied(written, "hash", tmp_path)
    file = f"part-{PART}/graph.edge_ids.npy"
    ids = np.load(parts / file)
    ids[-1] = edge
    forge(parts, file, ids)
    with pytest.raises(hr.InputError, match=r"expected .*edge_ids\.npy to be in \[0, 1500\), got edge ids from"):
        hr.open_dataset(parts, rank=PART)


@pytest.mark.parametrize("change", [(0, 1), (-1, -7), (3, 1 << 62), (-1, 1 << 62)])
def test_an_indptr_that_does_not_rise(written, tmp_path, change):
    parts = copied(written, "range", tmp_path)
    file = f"part-{PART}/graph.indptr.npy"
    indptr = np.load(parts / file)
    indptr[change[0]] = change[1]
    forge(parts, file, indptr)
    with pytest.raises(hr.InputError, match=r"expected .*indptr\.npy to rise from 0 to \d+ edges, got"):
        hr.open_dataset(parts, rank=PART)


def test_sources_and_owners_out_of_range(written, tmp_path):
    parts = copied(written, "table", tmp_path)
    file = f"part-{PART}/graph.indices.npy"
    indices = np.load(parts / file)
    forge(parts, file, np.where(np.arange(len(indices)) == 5, 10_000, indices).astype(indices.dtype))
    with pytest.raises(hr.InputError, match=rf"part-{PART} is damaged: .*10000.*copy the part once more"):
        hr.open_dataset(parts, rank=PART)
    forge(parts, "owners.npy", np.full_like(np.load(parts / "owners.npy"), -1))
    with pytest.raises(hr.InputError, match=rf"owners\.npy is damaged: expected \d+ nodes of part {PART}"):
        hr.open_dataset(parts, rank=PART)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at what is mapped")
def test_replaced_parts_stay_with_those_who_mapped_them(written, tmp_path):
    parts = copied(written, "hash", tmp_path)
    before = hr.open_dataset(parts, rank=PART)
    write(parts, graph(), hr.Partition.range(200, NUM_PARTS), store(), overwrite=True)
    assert before.graph == graph().shard(hr.Partition.hash(200, NUM_PARTS), PART)
