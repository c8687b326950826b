"""Graphs and features from NumPy files, of either form."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from cut_arrays import RefusedError, read_files

import headrace as hr

SRC, DST = np.array([0, 2, 2, 1], np.int32), np.array([1, 1, 0, 4], np.int32)
EXPECTED = hr.Graph.from_coo(SRC, DST, num_nodes=6)
FORMS = {
    "edge_index": {"edge_index": np.stack([SRC, DST]), "num_nodes": np.array(6)},
    "src_dst": {"src": SRC, "dst": DST, "num_nodes": np.array([6])},
    "csc": {"indptr": EXPECTED.indptr.numpy(), "indices": EXPECTED.indices.numpy()},
}
FEATURES = {"x": np.eye(6, 3), "y": np.arange(6), "train_mask": np.arange(6) < 2, "of_edges": np.arange(4)}


def save(path: Path, kind: str, **arrays: object) -> Path:
    if kind == "npz":
        np.savez(path / "graph.npz", **arrays)
        return path / "graph.npz"
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    return path


@pytest.mark.parametrize("kind", ["npz", "folder"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form(tmp_path, form, kind):
    files = read_files(save(tmp_path, kind, **FORMS[form], **FEATURES, meta=np.array("{}")))
    assert torch.equal(files.graph.indptr, EXPECTED.indptr)
    assert torch.equal(files.graph.indices, EXPECTED.indices)
    assert set(files.store.node) == {"x", "y", "train_mask"}
    assert list(files.store.edge) == ["of_edges"]
    assert list(files.left_out) == ["meta"]
    assert torch.equal(files.store.node["x"].read(torch.arange(6)).rows, torch.eye(6, 3, dtype=torch.float64))
    mask = files.store.node["train_mask"].read(torch.arange(6)).rows
    assert mask.tolist() == [True, True, False, False, False, False]


@pytest.mark.parametrize(
    ("more", "num_nodes"),
    [({}, 5), ({"y": np.arange(8)}, 8), ({"x": np.zeros((7, 2)), "y": np.arange(8)}, 7)],
)
def test_nodes_that_are_not_counted_are_found(tmp_path, more, num_nodes):
    assert read_files(save(tmp_path, "npz", src=SRC, dst=DST, **more)).graph.num_nodes == num_nodes


SPARSE = {"x_indptr": [0, 1, 1, 2, 2, 2, 2], "x_indices": [3, 0], "x_data": np.array([1, 2], np.uint8)}


def test_sparse_features(tmp_path):
    files = read_files(save(tmp_path, "npz", src=SRC, dst=DST, **SPARSE, x_shape=[6, 4]))
    assert files.graph.num_nodes == 6
    assert set(files.store.node) == {"x"}
    assert files.store.node["x"].read(torch.tensor([0, 2])).rows.tolist() == [[0, 0, 0, 1], [2, 0, 0, 0]]


@pytest.mark.parametrize("name", ["cora", "facebook_12colleges"])
def test_real_graphs(shared_data, name):
    files = read_files(shared_data / f"{name}.npz")
    with np.load(shared_data / f"{name}.npz") as arrays:
        assert files.graph.num_edges == arrays["edge_index"].shape[1]
    expected = {"x", "y", "train_mask", "val_mask", "test_mask"} if name == "cora" else set()
    assert set(files.store.node) == expected


def test_graphs_of_several_types_are_refused(shared_data):
    with pytest.raises(RefusedError, match="as indptr and indices, or as edge_index"):
        read_files(shared_data / "imdb_hetero.npz")
    with pytest.raises(RefusedError, match="num_nodes to be one integer, got int64"):
        read_files(shared_data / "movielens_small.npz")


def test_chosen_features(tmp_path):
    more = {"wide": np.ones((2, 4)), "words": np.array(list("abcdef"))}
    path = save(tmp_path, "npz", **FORMS["csc"], **FEATURES, **more)
    assert list(read_files(path, ["y", "x"]).store.node) == ["y", "x"]
    assert list(read_files(path, ["of_edges"]).store.edge) == ["of_edges"]
    assert not read_files(path, []).store.node
    assert not read_files(path, []).left_out
    for name, came in (
        ("z", "there is none"),
        ("wide", r"it has the shape \[2, 4\]"),
        ("words", r"it is <U1\[6\]; map"),
        ("indptr", "there is none"),
    ):
        with pytest.raises(RefusedError, match=f"expected '{name}' to be an array with a row .* {came}"):
            read_files(path, [name])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "expected a graph as"),
        ({**FORMS["csc"], "src": SRC, "dst": DST}, "only one of them"),
        ({"src": SRC}, "expected src, dst together, but dst is missing"),
        ({"edge_index": np.zeros((3, 2), np.int64)}, r"edge_index of int\[2, num_edges\], got int64\[3, 2\]"),
        ({"src": SRC, "dst": DST, "num_nodes": np.array(6.0)}, "num_nodes to be one integer"),
        ({**FORMS["csc"], "num_nodes": np.array(7)}, "indptr is of 6 nodes, num_nodes is 7"),
        ({"src": SRC, "dst": DST.astype(float)}, "dst"),
        ({"src": SRC, "dst": DST, "num_nodes": np.array(3)}, "3"),
        ({**FORMS["csc"], **SPARSE, "x_shape": [5, 4]}, "expected x_shape to be 6 rows"),
        ({**FORMS["csc"], **SPARSE, "x_shape": 6}, "expected x_shape to be 6 rows"),
        ({**FORMS["csc"], **SPARSE}, "x_shape is missing"),
        ({"src": np.array([{}], object)}, "of numbers; .*got Python objects"),
        ({**FORMS["csc"], **SPARSE, "x_shape": [6, 4], "x": np.ones((6, 2))}, "expected one feature x, got the array"),
    ],
)
def test_files_that_make_no_graph_are_refused(tmp_path, arrays, message):
    for kind in ("npz", "folder"):
        place = tmp_path / kind
        place.mkdir()
        with pytest.raises(RefusedError, match=message):
            read_files(save(place, kind, **arrays))


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 no archive", b"text"])
def test_what_is_no_file_of_numpy_is_refused(tmp_path, content):
    path = tmp_path / "graph.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RefusedError, match=r"graph\.npz: (there is no such file|expected an \.npz file)"):
        read_files(path)


def test_a_single_array_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(RefusedError, match=r"expected an \.npz file"):
        read_files(tmp_path / "x.npy")


@pytest.mark.parametrize("kind", ["npz", "folder"])
def test_what_is_left_out_has_its_reason(tmp_path, kind):
    more = {"x": np.ones((5, 2)), "names": np.array(list("abcdef")), "rate": np.array(0.5), "t": np.zeros(6, "M8[s]")}
    path = save(tmp_path, kind, **FORMS["src_dst"], **more, y=np.arange(6), edge_time=np.arange(4))
    files = read_files(path)
    assert set(files.left_out) == {"x", "names", "rate", "t"}
    assert files.left_out["x"] == "float64[5, 2], which has no row for each of 6 nodes, or of 4 edges"
    assert files.left_out["names"] == "<U1[6], which are no numbers: map what it holds to some"
    assert (list(files.store.node), list(files.store.edge)) == (["y"], ["edge_time"])


def test_files_beside_the_arrays_are_named(tmp_path):
    save(tmp_path, "folder", **FORMS["csc"])
    (tmp_path / "x.csv").write_text("1,2")
    (tmp_path / "more").mkdir()
    assert read_files(tmp_path).left_out == {"more": "a folder", "x.csv": "no .npy file"}
    archive = save(tmp_path / "more", "npz", **FORMS["csc"])
    with zipfile.ZipFile(archive, "a") as members:
        members.writestr("readme.txt", "text")
    assert read_files(archive).left_out == {"readme.txt": "no array"}


def test_as_many_nodes_as_edges(tmp_path):
    ring = np.arange(4)
    save(tmp_path, "folder", src=ring, dst=(ring + 1) % 4, num_nodes=np.array(4), y=ring, edge_weight=ring / 2)
    store = read_files(tmp_path).store
    assert (list(store.node), list(store.edge)) == (["y"], ["edge_weight"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("edges.csv", b"src,dst\n0,1\n", r"got text that begins with 'src,dst"),
        ("edges.parquet", b"PAR1" + bytes(40), r"got a Parquet file; .*read_parquet"),
        ("data.pt", b"\x80\x02}q\x00.", r"got a pickle, .*not opened"),
    ],
)
def test_files_of_other_formats_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    for path, text in ((tmp_path / name, message), (tmp_path, message.replace("got ", f"got {name}; {name} is "))):
        with pytest.raises(RefusedError, match=text) as caught:
            read_files(path)
        assert "allow_pickle" not in str(caught.value)


def test_objects_in_an_archive_are_named(tmp_path):
    path = save(tmp_path, "npz", **FORMS["csc"], rows=np.array([[1], [1, 2]], object))
    with pytest.raises(RefusedError, match=r"got Python objects in 'rows'") as caught:
        read_files(path)
    assert "allow_pickle" not in str(caught.value)
