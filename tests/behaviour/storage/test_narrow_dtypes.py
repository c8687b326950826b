"""Rows of dtypes that NumPy lacks are on disk what they were, or are no numbers: never integers without a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from shell import run

import headrace as hr

NAMES = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float16", "bool", "complex64", "uint8"]
NAMES += [name for name in ("uint16", "uint32", "uint64", "float8_e8m0fnu") if hasattr(torch, name)]
DTYPES = [getattr(torch, name) for name in NAMES]


def rows_of(dtype: torch.dtype) -> torch.Tensor:
    """Return rows of many bits, [8, 3]."""
    bits = torch.arange(8 * 3 * dtype.itemsize, dtype=torch.uint8)
    return (bits % 2).view(8, -1)[:, :3].bool() if dtype == torch.bool else bits.view(dtype).view(8, 3)


def bits_of(rows: torch.Tensor) -> list[int]:
    return rows.contiguous().view(torch.uint8).flatten().tolist()


def saved(folder: Path, rows: torch.Tensor) -> Path:
    """The file of the rows in a data set."""
    graph = hr.Graph.from_coo(torch.arange(8), torch.arange(8).roll(1))
    hr.save_dataset(folder, graph, hr.FeatureStore(node={"x": rows}), progress=False)
    return folder / "node.x.npy"


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_a_file_has_the_rows_as_they_were(tmp_path, dtype):
    rows = rows_of(dtype)
    file = saved(tmp_path / "set", rows)
    ids = torch.tensor([7, 0, 3])
    mapped = np.load(file, mmap_mode="r")
    for source in (
        hr.DiskFeature(file),
        hr.FeatureStore(node={"x": mapped}).node["x"],
        hr.open_dataset(tmp_path / "set").store.node["x"],
        hr.open_dataset(tmp_path / "set", memory_map=False).store.node["x"],
    ):
        read = source.read(ids).rows
        assert read.dtype == source.dtype == dtype
        assert bits_of(read) == bits_of(torch.stack([rows[i] for i in ids.tolist()]))


def test_columns_and_strides_of_records(tmp_path):
    rows = rows_of(torch.bfloat16)
    loaded = np.load(saved(tmp_path / "set", rows))
    source = hr.FeatureStore(node={"x": loaded[::2, 1]}).node["x"]
    assert source.shape == (4,)
    assert torch.equal(source.read(torch.arange(4)).rows, rows[::2, 1])


@pytest.mark.parametrize(
    "fields",
    [
        [("bfloat16", "<u4")],
        [("weight", "<u2")],
        [("bfloat16", "<f2")],
        [("bfloat16", "<u2"), ("b", "<u2")],
        [("float32", "<u4")],
    ],
    ids=str,
)
def test_records_of_other_names_or_sizes_are_refused(fields):
    with pytest.raises(hr.InputError, match="'x'"):
        hr.FeatureStore(node={"x": np.zeros(4, fields)})


def test_inference_into_a_file_and_back(tmp_path):
    graph = hr.Graph.from_coo([0, 1], [1, 0])
    store = hr.FeatureStore(node={"x": torch.tensor([[1.5], [-2.0]]).bfloat16()})
    layers = [lambda h, block: h[: block.num_dst]]
    out = hr.inference(torch.nn.Identity(), graph, store, layers=layers, out=tmp_path / "e.npy")
    assert torch.equal(out, store.node["x"].rows_in_place)
    assert torch.equal(hr.DiskFeature(tmp_path / "e.npy").read(torch.tensor([1, 0])).rows, out.flip(0))


def test_the_command_takes_them_as_features(tmp_path):
    rows, arrays = rows_of(torch.bfloat16), tmp_path / "arrays"
    file = saved(tmp_path / "set", rows)
    arrays.mkdir()
    file.rename(arrays / "x.npy")
    np.save(arrays / "src.npy", np.arange(7))
    np.save(arrays / "dst.npy", np.arange(1, 8))
    assert run("partition", arrays, tmp_path / "parts", "--parts", 1) == 0
    assert torch.equal(hr.open_dataset(tmp_path / "parts", rank=0).store.node["x"].read(torch.arange(8)).rows, rows)
