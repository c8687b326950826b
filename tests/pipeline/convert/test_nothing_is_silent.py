"""What would be converted to something else than was meant is refused, or named, before work starts."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.pipeline.convert.convert_tables import convert_tables
from headrace.pipeline.convert.description import Description, EdgeTable, Items, NodeTable
from headrace.pipeline.convert.formats.source import read_source
from headrace.pipeline.convert.formats.views import Beside, Cast, Numbered
from headrace.pipeline.convert.table import ArrayTable
from headrace.pipeline.storage.graph_files import read_graph_files

SRC, DST = np.array([0, 2, 2, 1]), np.array([1, 1, 0, 0])
ENDS = {"src": SRC, "dst": DST}


def convert(tmp_path, description):
    report = convert_tables(description, tmp_path / "data", progress=False, overwrite=True)
    return hr.open_dataset(tmp_path / "data"), report


def test_ids_of_edges_in_folders_of_arrays(tmp_path):
    """They are no attribute of edges: they say which row of a feature each edge has."""
    graph = hr.Graph.from_coo(SRC, DST)
    arrays = {"indptr": graph.indptr, "indices": graph.indices, "edge_ids": graph.edge_ids, "edge_x": np.arange(4)}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    files = read_graph_files(tmp_path)
    assert list(files.store.edge) == ["edge_x"]
    assert files.graph.content_digest() == graph.content_digest()
    with pytest.raises(hr.InputError, match=r"got edge_ids.*array\[edge_ids\]"):
        read_source(tmp_path)
    for name in ("indptr", "indices"):
        (tmp_path / f"{name}.npy").unlink()
    np.save(tmp_path / "edge_index.npy", np.stack([SRC, DST]))
    with pytest.raises(hr.InputError, match="expected edge_ids beside indptr and indices alone"):
        read_graph_files(tmp_path)


def test_texts_in_place_of_numbers_are_refused_before_rows_are_read(tmp_path, monkeypatch):
    table = ArrayTable("t", {**ENDS, "text": np.array(list("abcd"), object)})
    monkeypatch.setattr(ArrayTable, "chunks", lambda *_: iter([{"text": np.array(["1", None, "b"], object)}]))
    edge, nodes = EdgeTable(table), [NodeTable(num_nodes=3)]
    for given, message in (
        (Description([edge], nodes, [Items("a", table, "src", labels="text")]), "'a': expected labels to be numbers"),
        (Description([EdgeTable(table, attributes={"a": "text"})], nodes), "edge attribute 'a', got the text 'b' in t"),
        (
            Description([EdgeTable(table, features={"a": "text"})], nodes),
            "of feature 'a', got the text 'b' in t, row 2",
        ),
    ):
        with pytest.raises(hr.InputError, match=message):
            convert(tmp_path, given)


def test_classes_of_labels_stay_beside_other_tables():
    """Also through views, and with ids of another kind."""
    texts = ArrayTable("texts", {"genre": np.array(["b", "a", "b"], object), "id": np.arange(3)})
    beside = Beside([ArrayTable("ends", {"src": np.arange(3)}), Numbered(texts, ["genre"])])
    for table in (beside, Cast(beside, {"src": np.dtype(np.int32)}), beside.with_ids("id", "integers")):
        assert table.classes == {"genre": ["a", "b"]}
    more = Numbered(
        Numbered(ArrayTable("t", {"a": np.array(["x"], object), "b": np.array(["y"], object)}), ["a"]), ["b"]
    )
    assert more.classes == {"a": ["x"], "b": ["y"]}
