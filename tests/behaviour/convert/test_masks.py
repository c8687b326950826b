"""Masks of arrays and of objects: booleans or bytes, for one split or for several."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from source_folders import ogb_binary

import headrace as hr

EDGE_INDEX = np.array([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
#: Of four nodes in three splits.
WIDE = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]], bool)
SPLITS = [[0, 2], [1, 2], [3]]


def of_folder(folder, masks):
    for name, array in {"edge_index": EDGE_INDEX, "x": np.ones((4, 2), np.float32), **masks}.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def of_archive(folder, masks):
    np.savez(folder / "graph.npz", edge_index=EDGE_INDEX, x=np.ones((4, 2), np.float32), **masks)
    return folder / "graph.npz"


def of_pyg(folder, masks):
    del folder
    pyg = pytest.importorskip("torch_geometric.data")
    own = {name: torch.from_numpy(array.copy()) for name, array in masks.items()}
    return pyg.Data(x=torch.ones(4, 2), edge_index=torch.from_numpy(EDGE_INDEX), **own)


SOURCES = pytest.mark.parametrize("source_of", [of_folder, of_archive, of_pyg])


def converted(source_of, folder, **masks):
    (folder / "source").mkdir()
    data = hr.convert(source_of(folder / "source", masks), folder / "out", progress=False)
    data.verify()
    return data


@SOURCES
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8])
def test_a_mask_of_several_splits_is_as_many_sets_of_items(tmp_path, source_of, dtype):
    """As of WikiCS and of the heterophilous graphs, whose masks of tests are of one split, or of as many."""
    data = converted(source_of, tmp_path, train_mask=WIDE.astype(dtype), valid_mask=WIDE[:, ::-1], test_mask=WIDE[:, 0])
    assert {name: items.ids.tolist() for name, items in data.items.items()} == {
        **{f"train_{place}": ids for place, ids in enumerate(SPLITS)},
        **{f"val_{place}": ids for place, ids in enumerate(SPLITS[::-1])},
        "test": SPLITS[0],
    }
    assert list(data.store.node) == ["x"]


@pytest.mark.slow
@SOURCES
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8])
@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_a_mask_of_one_split(tmp_path, source_of, dtype, shape):
    data = converted(source_of, tmp_path, train_mask=WIDE[:, 1].astype(dtype).reshape(shape))
    assert {name: items.ids.tolist() for name, items in data.items.items()} == {"train": SPLITS[1]}
    assert list(data.store.node) == ["x"]


@SOURCES
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_a_mask_with_other_numbers_is_refused(tmp_path, source_of, shape):
    mask = np.repeat(np.array([0, 1, 1, 2], np.uint8).reshape(shape), 4 // shape[0], axis=0)
    with pytest.raises(hr.InputError, match=r"expected booleans or 0 and 1 in .*train_mask"):
        converted(source_of, tmp_path, train_mask=mask)


@SOURCES
def test_rows_of_other_numbers_are_features(tmp_path, source_of):
    data = converted(source_of, tmp_path, my_mask=np.arange(4.0), attention_mask=np.arange(4))
    assert not data.items
    assert sorted(data.store.node) == ["attention_mask", "my_mask", "x"]


def test_masks_by_type(tmp_path):
    pyg = pytest.importorskip("torch_geometric.data")
    data = pyg.HeteroData()
    for name in ("a", "b"):
        data[name].x, data[name].train_mask = torch.ones(4, 1), torch.from_numpy(WIDE)
    data["a", "to", "b"].edge_index = torch.from_numpy(EDGE_INDEX)
    made = hr.convert(data, tmp_path / "out", progress=False)
    assert list(made.items) == ["train_0", "train_1", "train_2"]
    assert {name: ids.tolist() for name, ids in made.items["train_1"].ids.items()} == {"a": [1, 2], "b": [1, 2]}


def test_years_of_ogb_in_binary_form_are_numbers(tmp_path):
    """They are vectors of one number there."""
    ogb_binary(tmp_path / "source")
    assert hr.convert(tmp_path / "source", tmp_path / "out", progress=False).graph.node_attrs["time"].shape == (40,)


# As many nodes as edges: names tell what arrays are of.


def saved(folder, **arrays):
    for name, array in {"edge_index": EDGE_INDEX[:, :4], "x": np.ones((4, 2)), **arrays}.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def test_weights_and_arrays_with_names_of_edges_are_of_edges(tmp_path):
    numbers = np.arange(4.0)
    data = hr.convert(
        saved(tmp_path, weight=numbers, edge_time=numbers, edge_attr=np.ones((4, 2)), node_age=numbers, y=np.arange(4)),
        tmp_path / "out",
        progress=False,
    )
    assert sorted(data.graph.edge_attrs) == ["edge_time", "weight"]
    assert list(data.store.edge) == ["edge_attr"]
    assert sorted(data.store.node) == ["node_age", "x", "y"]


@pytest.mark.parametrize("name", ["time", "age", "weights"])
def test_other_names_are_refused(tmp_path, name):
    message = rf"expected '{name}' to be of nodes or of edges, got 4 rows, as many .*edge_{name} or node_{name}"
    with pytest.raises(hr.InputError, match=message):
        hr.convert(saved(tmp_path, **{name: np.arange(4.0)}), tmp_path / "out", progress=False)
