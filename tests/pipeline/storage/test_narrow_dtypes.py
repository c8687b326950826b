"""Rows of dtypes that NumPy lacks are on disk what they were, or are no numbers: never integers without a word."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr
from headrace.pipeline.data.narrow_dtypes import numpy_dtype, of_numpy
from headrace.pipeline.storage.array_file import read_array, write_array
from headrace.pipeline.storage.graph_files import read_graph_files

NAMES = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float16", "bool", "complex64", "uint8"]
NAMES += [name for name in ("uint16", "uint32", "uint64", "float8_e8m0fnu") if hasattr(torch, name)]
DTYPES = [getattr(torch, name) for name in NAMES]


def rows_of(dtype: torch.dtype) -> torch.Tensor:
    """Return rows of many bits, [8, 3]."""
    bits = torch.arange(8 * 3 * dtype.itemsize, dtype=torch.uint8)
    return (bits % 2).view(8, -1)[:, :3].bool() if dtype == torch.bool else bits.view(dtype).view(8, 3)


def bits_of(rows: torch.Tensor) -> list[int]:
    return rows.contiguous().view(torch.uint8).flatten().tolist()


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_a_file_has_the_rows_as_they_were(tmp_path, dtype):
    rows = rows_of(dtype)
    write_array(tmp_path / "x.npy", dtype, (8, 3), iter([rows[:5], rows[5:]]))
    ids = torch.tensor([7, 0, 3])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert mapped.dtype == numpy_dtype(dtype)
    assert of_numpy(mapped.dtype) in (None, dtype)
    for source in (hr.DiskFeature(tmp_path / "x.npy"), hr.FeatureStore(node={"x": mapped}).node["x"]):
        found = source.read(ids).rows
        assert found.dtype == source.dtype == dtype
        assert bits_of(found) == bits_of(torch.stack([rows[i] for i in ids.tolist()]))
    for memory_map in (False, True):
        assert bits_of(read_array(tmp_path / "x.npy", dtype, (8, 3), memory_map=memory_map)) == bits_of(rows)


def test_files_of_before_hold_integers_and_are_read_as_what_is_said_of_them(tmp_path):
    rows = rows_of(torch.bfloat16)
    np.save(tmp_path / "x.npy", rows.view(torch.int16).numpy())
    read = read_array(tmp_path / "x.npy", torch.bfloat16, (8, 3), memory_map=True)
    assert bits_of(read) == bits_of(rows)


def test_columns_and_strides_of_records(tmp_path):
    rows = rows_of(torch.bfloat16)
    write_array(tmp_path / "x.npy", torch.bfloat16, (8, 3), [rows])
    loaded = np.load(tmp_path / "x.npy")
    source = hr.FeatureStore(node={"x": loaded[::2, 1]}).node["x"]
    assert source.shape == (4,)
    assert torch.equal(source.read(torch.arange(4)).rows, rows[::2, 1])


def test_inference_into_a_file_and_back(tmp_path):
    graph = hr.Graph.from_coo([0, 1], [1, 0])
    store = hr.FeatureStore(node={"x": torch.tensor([[1.5], [-2.0]]).bfloat16()})
    layers = [lambda h, block: h[: block.num_dst]]
    out = hr.inference(torch.nn.Identity(), graph, store, layers=layers, out=tmp_path / "e.npy")
    assert torch.equal(out, store.node["x"].tensor)
    assert torch.equal(hr.DiskFeature(tmp_path / "e.npy").read(torch.tensor([1, 0])).rows, out.flip(0))


def test_the_command_takes_them_as_features(tmp_path):
    rows = rows_of(torch.bfloat16)
    write_array(tmp_path / "x.npy", torch.bfloat16, (8, 3), [rows])
    np.save(tmp_path / "src.npy", np.arange(7))
    np.save(tmp_path / "dst.npy", np.arange(1, 8))
    assert torch.equal(read_graph_files(tmp_path).store.node["x"].read(torch.arange(8)).rows, rows)


def test_records_of_other_names_or_sizes_are_none_of_them():
    for fields in (
        [("bfloat16", "<u4")],
        [("weight", "<u2")],
        [("bfloat16", "<f2")],
        [("bfloat16", "<u2"), ("b", "<u2")],
    ):
        assert of_numpy(np.dtype(fields)) is None
    assert of_numpy(np.dtype([("float32", "<u4")])) is None  # NumPy has it
    assert of_numpy(np.dtype(np.uint16)) is None
