"""Features that are no plain arrays, in files and in memory: errors say what came and how it becomes an array."""

from __future__ import annotations

import gzip
import pickle

import numpy as np
import pytest
import torch

import headrace as hr

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


def npz(path):
    np.savez(path.with_suffix(".npz"), a=ROWS, b=ROWS)
    path.with_suffix(".npz").replace(path)


def pickled(path):
    path.write_bytes(pickle.dumps([1, 2]))


FILES = {
    "npz": (npz, r"got an \.npz archive of 'a', 'b'.*numpy\.save\(.*numpy\.load\(file\)\['a'\]\)"),
    "torch": (lambda path: torch.save(torch.from_numpy(ROWS), path), r"got a file of torch\.save; numpy\.save"),
    "torch of old": (
        lambda path: torch.save(torch.zeros(2), path, _use_new_zipfile_serialization=False),
        "got a pickle.*not opened",
    ),
    "pickle": (pickled, "got a pickle, as of pickle.dump"),
    "raw": ((ROWS * 1e30).tofile, r"got raw numbers without NumPy's header.*numpy\.memmap"),
    "text": (lambda path: np.savetxt(path, ROWS, delimiter=","), r"got text that begins with '0\.0.*numpy\.loadtxt"),
    "gzip": (lambda path: path.write_bytes(gzip.compress(b"x")), "got a file that is compressed by gzip; unpack it"),
    "hdf5": (
        lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50)),
        "got an HDF5 file; read the array by h5py",
    ),
    "parquet": (lambda path: path.write_bytes(b"PAR1" + bytes(50)), r"got a Parquet file; .*pandas\.read_parquet"),
    "empty": (lambda path: path.write_bytes(b""), "got a damaged file, which is empty"),
    "objects": (lambda path: np.save(path, np.array([[1], [1, 2]], object)), "got Python objects.*astype"),
    "records": (
        lambda path: np.save(path, np.zeros(4, [("a", "f4"), ("b", "i4")])),
        r"got \[\('a'.*\[4\]; a record has several numbers.*array\['a'\]",
    ),
    "bytes": (lambda path: np.save(path, np.zeros(4, "V2")), "bytes without a meaning"),
    "times": (lambda path: np.save(path, np.zeros(4, "M8[s]")), "map what it holds to numbers"),
    "big-endian": (lambda path: np.save(path, ROWS.astype(">f4")), "native byte order"),
    "fortran": (lambda path: np.save(path, np.asfortranarray(ROWS)), "Fortran order.*ascontiguousarray"),
    "no rows": (lambda path: np.save(path, np.float32(1)), "got a single number"),
    "too precise": (lambda path: np.save(path, ROWS.astype(np.longdouble)), r"this torch has no float.*numpy\.float64"),
}


@pytest.mark.parametrize("kind", FILES)
def test_other_files_are_named(tmp_path, kind):
    write, message = FILES[kind]
    write(tmp_path / "x.npy")
    with pytest.raises(hr.InputError, match=message):
        hr.DiskFeature(tmp_path / "x.npy")


class Table:
    """What NumPy makes one object of."""


Table.__module__ = "pandas.core"


def sparse():
    return pytest.importorskip("scipy.sparse").csr_matrix(ROWS)


THINGS = {
    "scipy": (sparse, r"got a csr_matrix of SciPy, \[4, 3\]; pass its \.toarray\(\)"),
    "sparse tensor": (
        lambda: torch.from_numpy(ROWS).to_sparse(),
        r"got float\d\d\[.*\] of layout torch\.sparse_coo; pass its \.to_dense",
    ),
    "texts": (lambda: ["a", "b"], "map what it holds to numbers first"),
    "ragged": (lambda: [[1], [1, 2]], "rows that differ in length"),
    "objects": (lambda: np.array([None, 1]), r"got object\[2\]; map what it holds to numbers first, such as"),
    "frame": (Table, r"got a Table; pass its columns of numbers"),
    "nothing": (lambda: None, "got a NoneType; pass a tensor, a NumPy array or a list"),
}


@pytest.mark.parametrize("kind", THINGS)
def test_other_things_are_named(kind):
    make, message = THINGS[kind]
    with pytest.raises(hr.InputError, match=rf"node feature 'x' .*{message}"):
        hr.FeatureStore(node={"x": make()})


def test_an_archive_is_no_feature_but_holds_some(tmp_path):
    np.savez(tmp_path / "x.npz", a=ROWS, b=ROWS)
    with np.load(tmp_path / "x.npz") as arrays:
        with pytest.raises(
            hr.InputError, match=r"'x' to be an array, got an \.npz archive of \['a', 'b'\]; .*arrays\['a'\]"
        ):
            hr.FeatureStore(node={"x": arrays})
        assert set(hr.FeatureStore(node=arrays).node) == {"a", "b"}
