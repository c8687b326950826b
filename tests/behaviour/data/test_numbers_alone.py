"""Arrays are numbers: codes with a scale aside, packed bits, and what has no memory are refused everywhere."""

from __future__ import annotations

import warnings

import pytest
import torch

import headrace as hr

GRAPH = hr.Graph.from_coo([0, 1, 2, 3], [1, 2, 3, 0])


def no_numbers() -> dict[str, torch.Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows, scale = torch.rand(4, 2), torch.full((2,), 0.1)
        found = {
            str(dtype): torch.quantize_per_tensor(rows, 0.1, 0, dtype)
            for dtype in (torch.qint8, torch.quint8, torch.qint32)
        }
        found["by channel"] = torch.quantize_per_channel(rows, scale, torch.zeros(2), 1, torch.qint8)
        for name in ("bits8", "bits1x8", "uint1", "uint4", "int4", "float4_e2m1fn_x2"):
            if hasattr(torch, name):
                found[name] = torch.zeros(4, 2, dtype=torch.uint8).view(getattr(torch, name))
    found["meta"] = torch.empty(4, 2, device="meta")
    found["sparse"] = torch.eye(4).to_sparse()
    return found


def saved(path, rows):
    hr.save_dataset(path, GRAPH, hr.FeatureStore(node={"x": rows}), progress=False)


def labelled(path, rows):
    hr.save_dataset(path, GRAPH, items={"train": ([0, 1, 2, 3], rows)}, progress=False)


TAKEN = {
    "feature": lambda path, rows: hr.FeatureStore(node={"x": rows}),
    "save_dataset": saved,
    "labels of save_dataset": labelled,
    "cache": lambda path, rows: hr.CachedFeature(rows, rows=2),
    "edge attribute": lambda path, rows: hr.Graph.from_coo([0, 1, 2, 3], [1, 2, 3, 0], edge_attrs={"w": rows}),
    "ids": lambda path, rows: hr.ItemSampler(rows, batch_size=2).loader(),
    "labels": lambda path, rows: hr.ItemSampler(([0, 1, 2, 3], rows), batch_size=2).loader(),
    "scores": lambda path, rows: hr.CachedFeature(torch.eye(4), "static", rows=2, scores=rows),
}


@pytest.mark.parametrize("take", TAKEN.values(), ids=TAKEN)
@pytest.mark.parametrize("name", no_numbers())
def test_what_are_no_numbers_is_refused(tmp_path, take, name):
    with pytest.raises(hr.InputError, match=r"(to be numbers, got|in CPU memory, got|to be a dense tensor, got) .*; "):
        take(tmp_path / "d", no_numbers()[name])
    assert not (tmp_path / "d").exists()


def test_what_torch_sees_through_a_flag_is_saved_as_it_is_seen(tmp_path):
    rows = torch.rand(4, 2, dtype=torch.complex64)
    store = hr.FeatureStore(node={"conj": rows.conj(), "neg": rows.conj().imag})
    hr.save_dataset(tmp_path / "d", GRAPH, store, progress=False)
    opened = hr.open_dataset(tmp_path / "d").store
    for name in ("conj", "neg"):
        assert torch.equal(opened.node[name].read(torch.arange(4)).rows, store.node[name].read(torch.arange(4)).rows)
