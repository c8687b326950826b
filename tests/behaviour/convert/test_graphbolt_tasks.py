"""Tasks of GraphBolt: their names and fields in notes; and tensors of torch, which are written as arrays first."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from shell import main
from source_folders import graphbolt, graphbolt_typed

import headrace as hr

TASKS = [{"name": "node_classification", "num_classes": 4}]


def converted(source, out):
    return hr.convert(source, out, progress=False)


def test_notes_keep_tasks(tmp_path, capsys):
    graphbolt(tmp_path / "source")
    data = converted(tmp_path / "source", tmp_path / "out")
    assert data.notes["tasks"] == TASKS
    hr.save_dataset(tmp_path / "again", data.graph, data.store, items=data.items, notes=data.notes, progress=False)
    assert hr.open_dataset(tmp_path / "again").notes["tasks"] == TASKS
    assert main(["info", str(tmp_path / "again")]) == 0
    assert "  task node_classification: num_classes=4\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new"), [("\ntasks:", "\ntask:"), ("feature_data:", "feature_dat:"), ("path: data/x", "pth: data/x")]
)
def test_misspelt_fields_are_refused(tmp_path, old, new):
    graphbolt(tmp_path / "source")
    metadata = tmp_path / "source/metadata.yaml"
    text = metadata.read_text()
    assert old in text
    metadata.write_text(text.replace(old, new, 1) + "\nversion: 3\n")
    with pytest.raises(hr.InputError, match=rf"did you mean {old.split(':')[0].strip()}\?"):
        converted(tmp_path / "source", tmp_path / "out")
    metadata.write_text(text + "\nversion: 3\n")
    converted(tmp_path / "source", tmp_path / "out")


def test_fields_without_sets(tmp_path):
    graphbolt_typed(tmp_path / "source")
    data = converted(tmp_path / "source", tmp_path / "out")
    assert data.notes["tasks"] == [{"name": "one"}]
    assert "  task one\n" in data.info()


@pytest.mark.parametrize(
    ("old", "new", "array"),
    [
        ("numpy\n            path: set/train.npy", "torch\n            path: set/train.pt", "set/train"),
        ("numpy\n      path: data/edges.npy", "torch\n      path: data/edges.pt", "data/edges"),
    ],
)
def test_the_code_that_the_error_names_writes_the_array(tmp_path, old, new, array):
    source = tmp_path / "source"
    graphbolt(source)
    rows = torch.from_numpy(np.load(source / f"{array}.npy"))
    torch.save(rows, source / f"{array}.pt")
    (source / f"{array}.npy").unlink()
    metadata = source / "metadata.yaml"
    text = metadata.read_text()
    assert old in text
    metadata.write_text(text.replace(old, new))
    with pytest.raises(hr.InputError, match=rf"got {array}\.pt \(format: torch\), which holds Python") as caught:
        converted(source, tmp_path / "out")
    code, told = re.search(r"write (numpy\.save\(.*\)), and in metadata.yaml (.*)$", str(caught.value)).groups()
    exec(code, {"numpy": np, "torch": torch})  # noqa: S102 - the remedy itself
    assert told == f"format: numpy, path: {array}.npy"
    metadata.write_text(text)
    assert converted(source, tmp_path / "out").graph.num_edges > 0


def test_a_preprocessed_folder_names_the_one_above(tmp_path):
    folder = tmp_path / "source" / "preprocessed"
    folder.mkdir(parents=True)
    (folder / "metadata.yaml").write_text("graph_topology: {type: FusedCSCSamplingGraph, path: g.pt}\n")
    with pytest.raises(hr.InputError, match=rf"convert the folder above, {tmp_path / 'source'},"):
        converted(folder, tmp_path / "out")
