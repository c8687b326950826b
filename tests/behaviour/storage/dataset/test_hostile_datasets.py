"""Manifests and arrays that are damaged or made by hand: right, or an error by name; nothing of them is executed."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
from small_datasets import saved

import headrace as hr

ODD = [
    None,
    -1,
    0,
    3,
    1 << 70,
    1.5,
    True,
    "",
    "x",
    "../x.npy",
    "/etc/passwd",
    "a\0b.npy",
    [],
    [[]],
    {},
    {"a": 1},
    "int64",
]
RUNS = 1500


@pytest.fixture(scope="module", params=["plain", "typed"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("sets") / request.param
    saved(path, request.param)
    return path


def use(path: Path) -> None:
    """Open a data set and read all of it; whatever is wrong has to be an error of headrace."""
    with contextlib.suppress(hr.HeadraceError):
        data = hr.open_dataset(path)
        data.graph.content_digest()
        data.info()
        for items in data.items.values():
            hr.ItemSampler(items, seed=0)
        data.store.content_digest()
        for ids in data.ids.values():
            ids.external([0])


def places(value, path=()):
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def changed(fields, random_state):
    made = copy.deepcopy(fields)
    for _ in range(random_state.choice([1, 1, 2])):
        *above, last = random_state.choice([one for one in places(made) if one])
        parent = made
        for key in above:
            parent = parent[key]
        if isinstance(parent, dict) and random_state.random() < 0.2:
            del parent[last]
        else:
            parent[last] = copy.deepcopy(random_state.choice(ODD))
    return made


@pytest.mark.slow
def test_changed_manifests_are_right_or_refused(folder):
    path = folder / "dataset.json"
    original = path.read_text()
    fields, state = json.loads(original), random.Random(7)
    try:
        for _ in range(RUNS):
            path.write_text(json.dumps(changed(fields, state)))
            use(folder)
        for _ in range(RUNS // 3):
            at = state.randrange(len(original))
            path.write_text(original[:at] + state.choice('[]{},:"0x\n') + original[at + state.randrange(3) :])
            use(folder)
    finally:
        path.write_text(original)
    hr.open_dataset(folder).verify()


@pytest.mark.slow
def test_changed_headers_are_right_or_refused(folder):
    state = random.Random(8)
    for file in sorted(folder.glob("*.npy"))[:6]:
        original = file.read_bytes()
        try:
            for _ in range(RUNS // 12):
                content = bytearray(original)
                for _ in range(state.choice([1, 1, 3])):
                    content[state.randrange(min(len(content), 130))] = state.choice(
                        b"0123456789(),'{}<>|OViufb\x00\xff "
                    )
                file.write_bytes(content[: state.choice([len(content)] * 3 + [state.randrange(len(content))])])
                use(folder)
        finally:
            file.write_bytes(original)
    hr.open_dataset(folder).verify()


@pytest.fixture
def fresh(tmp_path):
    saved(tmp_path / "set")
    return tmp_path / "set"


def refused(path: Path, message: str) -> None:
    with pytest.raises(hr.InputError, match=message):
        hr.open_dataset(path)


def edit(path: Path, change) -> None:
    fields = json.loads((path / "dataset.json").read_text())
    change(fields)
    (path / "dataset.json").write_text(json.dumps(fields))


@pytest.mark.parametrize("file", ["../secret.npy", "/secret.npy", "a/../../secret.npy", "", ".", "x.pkl", "a\\b.npy"])
def test_paths_outside_are_refused(fresh, file):
    np.save(fresh.parent / "secret.npy", np.zeros(41, np.int64))
    edit(fresh, lambda fields: fields["graph"]["indptr"].update(file=file))
    refused(fresh, "expected graph.indptr in a .npy file below the folder, got")


def test_links_to_outside_are_refused(fresh):
    target = fresh.parent / "outside.npy"
    (fresh / "graph.indptr.npy").rename(target)
    (fresh / "graph.indptr.npy").symlink_to(target)
    refused(fresh, "below the folder, got a link to outside")


def test_a_folder_that_is_a_link_is_opened(fresh):
    (fresh.parent / "link").symlink_to(fresh)
    hr.open_dataset(fresh.parent / "link").verify()


class Bomb:
    def __reduce__(self):
        return os.system, ("touch executed",)


def test_objects_are_not_unpickled(fresh, monkeypatch):
    monkeypatch.chdir(fresh.parent)
    np.save(fresh / "node.x.npy", np.array([Bomb()] * 40, dtype=object), allow_pickle=True)
    refused(fresh, "Python objects")
    (fresh / "node.x.npy").write_bytes(pickle.dumps(Bomb()))
    refused(fresh, "node.x.npy")
    assert not (fresh.parent / "executed").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda fields: fields.update(version=2), "expected version 1 in .*, got 2"),
        (lambda fields: fields.update(version=True), "expected version 1"),
        (lambda fields: fields.update(format="other"), "expected the format 'headrace data set'"),
        (lambda fields: fields.pop("items"), "expected the field 'items'"),
        (lambda fields: fields.update(num_nodes=39, features=[]), "expected graph.indptr of \\[40\\], got \\[41\\]"),
        (
            lambda fields: fields["graph"]["indices"].update(dtype="float32"),
            "graph.indices of torch.int32 or torch.int64",
        ),
        (lambda fields: fields["graph"]["indices"].update(dtype="int64"), "expected int64\\[200\\] in .*, got int32"),
        (lambda fields: fields["features"][0]["rows"].update(shape=[41, 3]), "of 40 rows, got \\[41, 3\\]"),
        (lambda fields: fields["features"].append(fields["features"][0]), "different names, got one twice"),
        (lambda fields: fields["features"][0].update(type="shop"), "of a type of the graph, got 'node', 'shop'"),
        (lambda fields: fields["graph"]["indptr"].update(file="gone.npy"), "gone.npy, but there is no such file"),
        (lambda fields: fields["graph"]["indptr"].update(sha256="abc"), "64 hexadecimal digits"),
        (lambda fields: fields["graph"].pop("edge_ids"), "expected the field 'graph.edge_ids', but it is missing"),
        (lambda fields: fields.update(feature=[]), "expected no field 'feature', got one; its fields are"),
        (lambda fields: fields["graph"]["indices"].update(sha512=None), "expected no field 'graph.indices.sha512'"),
        (
            lambda fields: fields["features"][0]["rows"]["shape"].__setitem__(1, -3),
            r"expected features\[0\].rows.shape\[1\] to be an integer from 0 to 9223372036854775807, got -3",
        ),
        (
            lambda fields: fields["features"][0]["rows"]["shape"].__setitem__(1, 3.0),
            r"expected features\[0\].rows.shape\[1\] to be an integer, got '3.0'",
        ),
        (lambda fields: fields.update(num_edges=True), "expected num_edges to be an integer, got 'True'"),
        (lambda fields: fields.update(num_nodes=0), "expected num_nodes of at least 1, got 0"),
        (
            lambda fields: fields["graph"].update(node_attrs=[]),
            r"expected graph.node_attrs to be an object, got '\[\]'",
        ),
        (
            lambda fields: fields["items"]["train"][0].update(type=3),
            r"expected items.train\[0\].type to be a string or a list or null, got '3'",
        ),
        (
            lambda fields: fields["items"]["train"][0].update(type=["a", "b"]),
            r"expected items.train\[0\].type of 3 elements, got 2",
        ),
        (
            lambda fields: fields["items"]["train"][0].update(labels=fields["graph"]["indptr"]),
            r"expected items.train\[0\].labels of .* rows, got \[41\]",
        ),
    ],
)
def test_what_is_wrong_is_named(fresh, change, message):
    edit(fresh, change)
    refused(fresh, message)


def test_a_manifest_by_hand_opens(tmp_path):
    np.save(tmp_path / "p.npy", np.array([0, 1, 2]))
    np.save(tmp_path / "i.npy", np.array([1, 0], np.int32))
    arrays = [
        {"file": f"{name}.npy", "dtype": dtype, "shape": [size]}
        for name, dtype, size in (("p", "int64", 3), ("i", "int32", 2))
    ]
    graph = {
        "indptr": arrays[0],
        "indices": arrays[1],
        "edge_ids": None,
        "node_ids": None,
        "edge_attrs": {},
        "node_attrs": {},
    }
    fields = {"format": "headrace data set", "version": 1, "num_nodes": 2, "num_edges": 2, "node_types": None}
    fields |= {"edge_types": None, "graph": graph, "features": [], "items": {}, "ids": [], "notes": {}}
    (tmp_path / "dataset.json").write_text(json.dumps(fields))
    data = hr.open_dataset(tmp_path)
    data.verify()
    assert data.graph == hr.Graph.from_coo([1, 0], [0, 1])


@pytest.mark.parametrize("path", ["none such", "a\0b", "/"])
def test_folders_without_a_data_set_are_refused(path):
    with pytest.raises(hr.InputError, match=r"expected (a folder|path)"):
        hr.open_dataset(path)
