"""Files that other libraries read: the error has the line of Python that makes a data set of them."""

from __future__ import annotations

import re

import pytest
from table_files import write_toml
from without import edges_by_id

import headrace as hr


def remedy_of(source) -> str:
    """The line in the error about a source."""
    with pytest.raises(hr.InputError, match="which headrace does not read") as caught:
        hr.convert(source, "out", progress=False)
    return re.search("`(.*)`", str(caught.value))[1]


@pytest.fixture
def matrix(tmp_path, monkeypatch):
    """A matrix of three edges, in a folder that is the working one."""
    sparse, market = pytest.importorskip("scipy.sparse"), pytest.importorskip("scipy.io")
    monkeypatch.chdir(tmp_path)
    market.mmwrite("web.mtx", sparse.coo_array(([0.5, 2, 1], ([0, 1, 2], [1, 2, 2])), shape=(4, 4)))
    return "web.mtx"


def run(line):
    """The data set that a line of an error writes."""
    exec(line, {})  # noqa: S102 - the remedy itself
    return hr.open_dataset("DATASET")


def test_matrix_market(matrix):
    data = run(remedy_of(matrix))
    assert data.graph.num_nodes == 4
    assert set(zip(*edges_by_id(data.graph).tolist(), strict=True)) == {(0, 1), (1, 2), (2, 2)}


def test_graphml(tmp_path, monkeypatch):
    networkx = pytest.importorskip("networkx")
    pytest.importorskip("scipy")
    monkeypatch.chdir(tmp_path)
    networkx.write_graphml(networkx.DiGraph([("b", "a"), ("a", "c")]), "g.graphml")
    data = run(remedy_of("g.graphml"))
    ends = [data.ids["node"].external(one) for one in edges_by_id(data.graph)]
    assert set(zip(*ends, strict=True)) == {("b", "a"), ("a", "c")}


@pytest.mark.parametrize("ending", ["mtx", "mtx.gz", "MTX", "graphml"])
def test_they_are_named_wherever_they_are_given(tmp_path, ending):
    (tmp_path / f"web.{ending}").write_text("")
    source = write_toml(tmp_path / "d.toml", {"edges": {"files": f"web.{ending}"}})
    for given in (source, tmp_path / f"web.{ending}"):
        assert f"web.{ending}" in remedy_of(given)
    source.unlink()
    assert f"web.{ending}" in remedy_of(tmp_path)
    assert not (tmp_path / "out").exists()
