"""Arrays where DuckDB, Arrow and PyYAML are not installed: the data set that these make, or what to install."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from shell import main
from table_files import write_toml

import headrace as hr


@pytest.fixture
def bare(monkeypatch):
    """Return a function from which on the extra is not installed."""

    def leave_out() -> None:
        for name in ("duckdb", "pyarrow", "yaml"):
            monkeypatch.setitem(sys.modules, name, None)

    return leave_out


def arrays(num_nodes: int = 30, num_edges: int = 200, *, dtype: type = np.int64, **more) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    return {
        "edge_index": random.integers(0, num_nodes, (2, num_edges)).astype(dtype),
        "x": random.normal(size=(num_nodes, 4)).astype(np.float32),
        "y": np.where(random.random(num_nodes) < 0.2, -100, random.integers(0, 3, num_nodes)),
        "train_mask": random.random(num_nodes) < 0.5,
        "val_mask": random.random((num_nodes, 3)) < 0.5,
        "edge_weight": random.random(num_edges),
        "edge_wide": random.normal(size=(num_edges, 2)),
        **more,
    }


def as_source(folder: Path, given: dict[str, np.ndarray], *, is_archive: bool) -> Path:
    if is_archive:
        np.savez(folder / "graph.npz", **given)
        return folder / "graph.npz"
    (folder / "graph").mkdir()
    for name, array in given.items():
        np.save(folder / "graph" / f"{name}.npy", array)
    return folder / "graph"


@pytest.mark.slow
@pytest.mark.parametrize("is_archive", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        arrays(),
        arrays(dtype=np.int32),
        arrays(time=np.arange(30)),
        {"edge_index": np.array([[0, 5, 2], [2, 2, 0]])},
        {"edge_index": np.zeros((2, 0), np.int64), "num_nodes": np.array(3)},
        {"indptr": np.array([0, 2, 2, 3]), "indices": np.array([2, 2, 0]), "weight": np.ones(3, np.float32)},
    ],
)
def test_arrays_take_no_extra(tmp_path, bare, given, is_archive):
    source = as_source(tmp_path, given, is_archive=is_archive)
    hr.convert(source, tmp_path / "with", progress=False)
    bare()
    data = hr.convert(source, tmp_path / "without", progress=False)
    data.verify()
    files = sorted(path.relative_to(tmp_path / "with") for path in (tmp_path / "with").rglob("*.npy"))
    assert files == sorted(path.relative_to(tmp_path / "without") for path in (tmp_path / "without").rglob("*.npy"))
    for file in files:
        assert (tmp_path / "with" / file).read_bytes() == (tmp_path / "without" / file).read_bytes(), file
    assert data.notes == hr.open_dataset(tmp_path / "with").notes


def test_the_shell_reports_what_it_made(tmp_path, bare, capsys):
    source = as_source(tmp_path, arrays(), is_archive=True)
    bare()
    assert main(["convert", str(source), str(tmp_path / "out"), "--dry-run"]) == 0
    assert main(["convert", str(source), str(tmp_path / "out")]) == 0
    assert "nodes of type node: 30\n  edges: 200\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"edge_index": np.array([[0, 1], [1, 30]])}, r"row 1: there is no node with the id 30 of 'dst'"),
        ({"edge_index": np.array([[-1, 1], [1, 3]])}, r"row 0: there is no node with the id -1 of 'src'"),
        ({"edge_index": np.array([[0.5, 1], [1, 3]])}, r"row 0: expected integers in 'src', got float64 0\.5"),
        ({"edge_weight": np.array([1.0, -1.0])}, r"row 1: expected a weight that is finite and not negative"),
        ({"train_mask": np.arange(30, dtype=np.uint8)}, r"row 2: expected booleans or 0 and 1"),
    ],
)
def test_what_is_wrong_is_refused_in_the_same_words(tmp_path, bare, more, message):
    given = arrays(num_edges=2)
    del given["edge_wide"]
    source = as_source(tmp_path, {**given, **more}, is_archive=False)
    texts = []
    for leave_out in (lambda: None, bare):
        leave_out()
        with pytest.raises(hr.InputError, match=message) as caught:
            hr.convert(source, tmp_path / "out", progress=False)
        texts.append(str(caught.value))
        assert not (tmp_path / "out").exists()
    assert texts[0] == texts[1]


def test_negative_numbers_of_nodes_that_are_not_counted(tmp_path, bare):
    bare()
    source = as_source(tmp_path, {"edge_index": np.array([[0, -1], [1, 3]])}, is_archive=True)
    with pytest.raises(hr.InputError, match=r"row 1: expected a node number of at least 0 in 'src', got -1"):
        hr.convert(source, tmp_path / "out", progress=False)


@pytest.mark.parametrize(
    ("options", "what"), [({"undirected": True}, "the option undirected"), ({"loops": "add"}, "the option loops")]
)
def test_more_names_what_to_install(tmp_path, bare, options, what):
    bare()
    source = as_source(tmp_path, arrays(), is_archive=True)
    with pytest.raises(hr.InputError, match=rf"{what} takes duckdb, which is not installed; pip install 'headrace\["):
        hr.convert(source, tmp_path / "out", progress=False, **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("sections", "what"),
    [
        ({'edges."a,to,b"': {"columns": {"src": "src.npy", "dst": "dst.npy"}}}, "a graph with types"),
        (
            {"edges": {"columns": {"src": "src.npy", "dst": "dst.npy"}}, "nodes": {"external": True}},
            "ids that are keys",
        ),
    ],
)
def test_described_arrays_name_what_to_install(tmp_path, bare, sections, what):
    bare()
    for name in ("src", "dst"):
        np.save(tmp_path / f"{name}.npy", np.arange(3))
    source = write_toml(tmp_path / "d.toml", sections)
    with pytest.raises(hr.InputError, match=f"{what}.* takes duckdb, which is not installed"):
        hr.convert(source, tmp_path / "out", progress=False)


def test_objects_take_no_extra(tmp_path, bare):
    pyg = pytest.importorskip("torch_geometric.data")
    bare()
    data = pyg.Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    assert hr.convert(data, tmp_path / "out", progress=False).graph.num_edges == 2
