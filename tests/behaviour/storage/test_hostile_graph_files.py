"""Graphs in NumPy files that somebody damaged: errors that name the file, never a hang or a raw error."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cut_arrays import RefusedError, read_files

pytestmark = [
    pytest.mark.timeout(30),
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="makes FIFOs"),
]
INDPTR, INDICES = np.array([0, 1, 3, 3]), np.array([1, 2, 0], np.int32)
PAIRS = {"src": INDICES, "dst": np.array([0, 1, 1], np.int32)}
SPARSE = {"x_indptr": np.array([0, 1, 1, 2]), "x_indices": np.array([3, 0]), "x_data": np.array([1.0, 2.0])}


def refused(path: Path, named: Path) -> None:
    with pytest.raises(RefusedError) as caught:
        read_files(path)
    assert "expected" in str(caught.value) or "there is no such file" in str(caught.value)
    assert str(named) in str(caught.value)


def shorter(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def link_to_a_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def wide_header(path: Path) -> None:
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({1 << 62},), }}\n".encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)


def deep_header(path: Path) -> None:
    text = b"(" * 9000 + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)


DAMAGES = [shorter, empty, fifo, folder, link_to_itself, link_to_a_device, wide_header, deep_header]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: one.__name__)
def test_a_damaged_array_of_a_folder_is_named(tmp_path, damage):
    np.save(tmp_path / "indptr.npy", INDPTR)
    np.save(tmp_path / "indices.npy", INDICES)
    read_files(tmp_path)
    damage(tmp_path / "indices.npy")
    refused(tmp_path, tmp_path / "indices.npy")


@pytest.mark.parametrize("damage", [one for one in DAMAGES if one is not folder], ids=lambda one: one.__name__)
def test_a_damaged_archive_is_named(tmp_path, damage):
    path = tmp_path / "graph.npz"
    np.savez(path, indptr=INDPTR, indices=INDICES)
    read_files(path)
    damage(path)
    refused(path, path)


@pytest.mark.parametrize("damage", [wide_header, deep_header, shorter, empty], ids=lambda one: one.__name__)
def test_a_damaged_member_of_an_archive(tmp_path, damage: Callable[[Path], None]):
    path, member = tmp_path / "graph.npz", tmp_path / "indices.npy"
    np.save(member, INDICES)
    damage(member)
    np.savez(path, indptr=INDPTR)
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(member, member.name)
    refused(path, path)


@pytest.mark.parametrize("bytes_changed", [(200, 260), (330, 380), (0, 30)])
def test_a_scribbled_archive(tmp_path, bytes_changed):
    path = tmp_path / "graph.npz"
    np.savez_compressed(path, **PAIRS)
    data = bytearray(path.read_bytes())
    low, high = bytes_changed
    data[low:high] = b"\xff" * len(data[low:high])
    path.write_bytes(data)
    refused(path, path)


@pytest.mark.parametrize("kind", ["npz", "folder"])
@pytest.mark.parametrize(
    "changed",
    [
        {"num_nodes": np.array(1 << 62)},
        {"num_nodes": np.array(-1)},
        {"num_nodes": np.array((1 << 64) - 1, np.uint64)},
        {"src": np.array([1 << 62, 0, 0])},
        {"dst": np.array([-1, 0, 0])},
        {**SPARSE, "x_shape": np.array([3, -1])},
        {**SPARSE, "x_shape": np.array([3, 1 << 62])},
        {**SPARSE, "x_shape": np.array([3, (1 << 64) - 1], np.uint64)},
        {**SPARSE, "x_indptr": np.array([0, 9, 1, 2]), "x_shape": np.array([3, 4])},
        {**SPARSE, "x_indices": np.array([-1, 0]), "x_shape": np.array([3, 4])},
        {**SPARSE, "x_indptr": np.array([], np.int64), "x_shape": np.array([-1, 4])},
        {**SPARSE, "x_indptr": np.array(3), "x_shape": np.array([0, 4])},
    ],
    ids=str,
)
def test_numbers_that_make_no_graph(tmp_path, changed, kind):
    arrays = {**PAIRS, **changed}
    if kind == "npz":
        path = tmp_path / "graph.npz"
        np.savez(path, **arrays)
    else:
        path = tmp_path
        for name, array in arrays.items():
            np.save(path / f"{name}.npy", array)
    with pytest.raises(RefusedError) as caught:
        read_files(path)
    assert str(path) in str(caught.value)
