"""Attributes of data sets of other libraries, and their folders."""

from __future__ import annotations

import pytest

import headrace as hr


@pytest.fixture
def data(tmp_path):
    graph = hr.Graph.from_coo([0, 1], [1, 0])
    hr.save_dataset(tmp_path / "data", graph, items={"train": [0]}, notes={"tasks": "none"}, progress=False)
    return hr.open_dataset(tmp_path / "data")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tasks", r'data\.items\["train"\]'),
        ("feature", r"data\.store"),
        ("num_nodes", r"data\.graph\.num_nodes"),
        ("num_classes", r'data\.notes\["tasks"\]'),
        ("train_mask", r"data\.items"),
        ("itmes", r"did you mean items\?"),
    ],
)
def test_attributes(data, name, words):
    with pytest.raises(AttributeError, match=rf"a Dataset has no attribute '{name}'; .*{words}"):
        getattr(data, name)


def test_graphs_of_data_sets(data):
    with pytest.raises(AttributeError, match=r"^an OpenedGraph has no attribute 'num_node'; did you mean num_nodes"):
        data.graph.num_node  # noqa: B018 - it is refused


def test_notes_may_hold_anything(data):
    assert "task" not in data.info()


def test_all_splits_are_no_items(data):
    with pytest.raises(hr.InputError, match=r"got a Dataset with item sets by name, train; .*data\.items\['train'\]"):
        hr.ItemSampler(data)


@pytest.mark.parametrize(
    ("file", "library"),
    [("metadata.yaml", "GraphBolt"), ("meta.yaml", "DGL"), ("raw/edge.csv.gz", "OGB"), ("raw/data.npz", "OGB")],
)
def test_folders_of_other_libraries_are_to_be_converted(tmp_path, file, library):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    with pytest.raises(hr.InputError, match=rf"of {library}: run `headrace convert {tmp_path} DATASET`"):
        hr.open_dataset(tmp_path)


def test_a_description_itself(tmp_path):
    (tmp_path / "metadata.yaml").touch()
    with pytest.raises(hr.InputError, match=rf"run `headrace convert {tmp_path} DATASET`"):
        hr.open_dataset(tmp_path / "metadata.yaml")
