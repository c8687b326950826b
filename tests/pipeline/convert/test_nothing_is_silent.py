"""What would be converted to something else than was meant is refused, or named, before work starts."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from shell import main

import headrace as hr
from headrace.pipeline.convert.convert_tables import convert_tables
from headrace.pipeline.convert.description import Description, EdgeTable, Items, NodeTable, Options
from headrace.pipeline.convert.formats.described import description_of
from headrace.pipeline.convert.formats.source import read_source
from headrace.pipeline.convert.formats.views import Beside, Cast, Numbered
from headrace.pipeline.convert.table import ArrayTable
from headrace.pipeline.storage.dataset.manifest import Manifest
from headrace.pipeline.storage.graph_files import read_graph_files

SRC, DST = np.array([0, 2, 2, 1]), np.array([1, 1, 0, 0])
ENDS = {"src": SRC, "dst": DST}


def convert(tmp_path, description):
    report = convert_tables(description, tmp_path / "data", progress=False, overwrite=True)
    return hr.open_dataset(tmp_path / "data"), report


def test_a_pattern_that_names_no_file_is_named_as_it_was_written(tmp_path):
    with pytest.raises(hr.InputError, match=rf"expected files, got '{tmp_path}/view/\*\.csv', which names none"):
        description_of({"edges": {"files": "view/*.csv"}}, tmp_path, "t")


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


def test_a_type_of_nodes_that_was_misspelt(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n")
    (tmp_path / "n.csv").write_text("x\n1\n2\n")
    edges = {"user,buys,itme": {"files": "e.csv"}}
    nodes = {"user": {"files": "n.csv"}, "item": {}}
    with pytest.raises(hr.InputError, match=r"edges user,buys,itme: .*got 'itme'; did you mean item\?"):
        description_of({"edges": edges, "nodes": nodes}, tmp_path, "t")
    with pytest.raises(hr.InputError, match=r"got 'itme'; add \[nodes.itme\]"):
        description_of({"edges": edges, "nodes": {"user": {}}}, tmp_path, "t")
    assert description_of({"edges": edges, "nodes": {**nodes, "itme": {}}}, tmp_path, "t")
    assert description_of({"edges": edges}, tmp_path, "t").edges[0].type == ("user", "buys", "itme")


@pytest.mark.parametrize("value", [np.nan, np.inf, -1])
def test_weights_that_nothing_can_be_drawn_by(tmp_path, value):
    table = ArrayTable("edges", {**ENDS, "w": np.array([1, 0, value, 1.0]), "loop": np.array([0, 0, 0, 0.0])})
    for edge in (EdgeTable(table, weight="w"), EdgeTable(table, attributes={"my_weight": "w"})):
        with pytest.raises(hr.InputError, match=rf"edges, row 2: expected a weight that is finite.*'w', got {value}"):
            convert(tmp_path, Description([edge]))
    convert(tmp_path, Description([EdgeTable(table, attributes={"other": "w"})]))
    # Of edges that are left out nothing is asked.
    edge = EdgeTable(
        ArrayTable("edges", {"src": SRC, "dst": np.array([1, 1, 2, 0]), "w": np.array([1, 0, value, 1.0])})
    )
    drop = Options(loops="drop")
    data, _ = convert(tmp_path, Description([EdgeTable(edge.table, weight="w")], options=drop))
    assert data.graph.edge_attrs["weight"].tolist() == [1, 0, 1]


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


def test_names_of_splits(tmp_path):
    """Of columns of names, of masks, of tables of items, of objects: val is called that everywhere."""
    names = np.array(["Train", "valid", "validation", "val", "TEST", "mine"], object)
    masks = {"is_train": np.arange(6) < 2, "is_valid": np.arange(6) > 3}
    nodes = ArrayTable("nodes", {"split": names, **masks})
    edge = EdgeTable(ArrayTable("edges", ENDS))
    data, _ = convert(tmp_path, Description([edge], [NodeTable(table=nodes, splits="split")]))
    assert {name: items.ids.tolist() for name, items in data.items.items()} == {
        "train": [0],
        "val": [1, 2, 3],
        "test": [4],
        "mine": [5],
    }
    node = NodeTable(table=nodes, splits={"train": "is_train", "valid": "is_valid"})
    items = [Items("validation", ArrayTable("more", {"id": np.array([2])}))]
    data, _ = convert(tmp_path, Description([edge], [node]))
    assert set(data.items) == {"train", "val"}
    with pytest.raises(hr.InputError, match="expected items 'val' once for a type"):
        convert(tmp_path, Description([edge], [node], items))
    with pytest.raises(hr.InputError, match="one column for each split of 'node'"):
        convert(tmp_path, Description([edge], [NodeTable(table=nodes, splits={"val": "is_train", "Val": "is_valid"})]))
    pyg = pytest.importorskip("torch_geometric.data")
    given = pyg.Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2, x=torch.zeros(2, 1))
    given.valid_mask = torch.tensor([False, True])
    assert set(hr.convert(given, tmp_path / "pyg", progress=False).items) == {"val"}
    given.val_mask = torch.tensor([False, True])
    with pytest.raises(hr.InputError, match="one mask of the items 'val'"):
        hr.convert(given, tmp_path / "more", progress=False)


def test_parts_that_go_with_a_data_set_are_named(tmp_path, capsys):
    edge = EdgeTable(ArrayTable("edges", ENDS))
    _, report = convert(tmp_path, Description([edge]))
    assert report.removed == ()
    assert main(["partition", str(tmp_path / "data"), "--parts", "2"]) == 0
    dry = convert_tables(Description([edge]), tmp_path / "data", overwrite=True, dry_run=True)
    assert "parts/hash-2 of the former data set would be removed" in str(dry)
    main(["reorder", str(tmp_path / "data"), str(tmp_path / "other")])
    main(["partition", str(tmp_path / "other"), "--parts", "3"])
    capsys.readouterr()
    assert main(["reorder", str(tmp_path / "data"), str(tmp_path / "other"), "--overwrite"]) == 0
    assert "parts/hash-3 of the former data set is removed" in capsys.readouterr().out
    _, report = convert(tmp_path, Description([edge]))
    assert report.removed == ("parts/hash-2",)
    both = replace(report, removed=("parts/hash-2", "parts/hash-3"))
    assert "parts/hash-2, parts/hash-3 of the former data set are removed" in str(both)
    assert not (tmp_path / "data" / "parts").exists()


def test_items_of_one_space_of_ids_in_a_data_set_with_types_are_reordered(tmp_path):
    edges = {("user", "buys", "item"): (torch.tensor([0, 0, 2]), torch.tensor([1, 0, 1]))}
    graph = hr.Graph.from_coo(edges, num_nodes={"user": 3, "item": 2})
    store = hr.FeatureStore({"mark": torch.arange(5)})
    items = {"train": torch.tensor([4, 0, 2]), "pairs": torch.tensor([[0, 3], [2, 4]])}
    hr.save_dataset(tmp_path / "data", graph, store, items=items, progress=False)
    assert main(["reorder", str(tmp_path / "data"), str(tmp_path / "out"), "--by", "out-degree"]) == 0
    data = hr.open_dataset(tmp_path / "out")
    marks = data.store.node["mark"].read(torch.arange(5)).rows
    assert marks.tolist() != list(range(5))
    for name, ids in items.items():
        assert torch.equal(marks[data.items[name].ids], ids)


def test_columns_without_use_are_named(tmp_path, capsys):
    """Items that are in the file of edges use its columns, too."""
    (tmp_path / "e.csv").write_text("src,dst,w,kind,when\n0,1,0.5,2,3\n1,0,0.5,2,3\n")
    (tmp_path / "n.csv").write_text("a,x0,x1,is_train,note\n1,2,3,true,\n1,2,3,false,b\n")
    description = {
        "edges": {"files": "e.csv", "weight": "w"},
        "nodes": {"files": "n.csv", "features": ["x*"], "splits": {"train": "is_train"}},
    }
    expected = {str(tmp_path / "n.csv"): ["a", "note"], str(tmp_path / "e.csv"): ["kind", "when"]}
    made = description_of(description, tmp_path, "t")
    table = ArrayTable(made.edges[0].table.name, {"src": SRC % 2, "dst": DST % 2, "kind": SRC})
    for dry_run, is_made in ((True, "would be"), (False, "is")):
        report = convert_tables(made, tmp_path / "data", progress=False, overwrite=True, dry_run=dry_run)
        assert report.unused == expected
        assert str(report).startswith(f"{tmp_path / 'data'} {is_made} a data set of:\n")
    assert f"columns of {tmp_path / 'n.csv'} that are not used: a, note\n" in str(report)
    some = Items("pairs", table, ("src", "dst"), labels="kind")
    both = Description(made.edges, made.nodes, [some])
    assert convert_tables(both, tmp_path / "more", progress=False).unused[str(tmp_path / "e.csv")] == ["when"]
    assert main(["convert", str(tmp_path), str(tmp_path / "set"), "--edges", "e.csv"]) == 0
    assert f"columns of {tmp_path / 'e.csv'} that are not used: w, kind, when\n" in capsys.readouterr().out
    wide = ArrayTable("wide", {**ENDS, **{f"c{i}": SRC for i in range(14)}})
    _, report = convert(tmp_path, Description([EdgeTable(wide)]))
    assert "c10, c11 and 2 more\n" in str(report)


@pytest.mark.parametrize(
    ("column", "values"), [("id", range(1, 11)), ("ID", "abcdefghij"), ("Node_id", [*range(9), ""]), ("nid", [3] * 10)]
)
def test_a_column_of_ids_without_use_is_warned_of(tmp_path, capsys, column, values):
    (tmp_path / "n.csv").write_text(f"{column},age\n" + "".join(f"{one},{row}\n" for row, one in enumerate(values)))
    (tmp_path / "e.csv").write_text("src,dst\n1,2\n3,9\n")
    flags = [
        "convert",
        str(tmp_path),
        str(tmp_path / "out"),
        "--edges",
        "e.csv",
        "--nodes",
        "n.csv",
        "--features",
        "age",
    ]
    text = rf"n.csv: .* numbered 0, 1, 2, .* column '{column}', .*pass --id {column} \(in TOML: id = \"{column}\"\)"
    for more in (["--dry-run"], []):
        with pytest.warns(UserWarning, match=f"convert: .*{text}"):
            assert main([*flags, *more]) == 0
        assert re.search(f"  warning: .*{text}", capsys.readouterr().out)


def test_a_column_of_ids_that_are_the_numbers_of_rows_is_not_warned_of(tmp_path):
    values = [np.arange(3), np.array([1, 2, 3])]
    for column, ids in (("id", values[0]), ("group_id", values[1]), ("user_id", values[0])):
        nodes = ArrayTable("nodes", {column: ids, "x": np.ones(3)})
        _, report = convert(tmp_path, Description([EdgeTable(ArrayTable("edges", ENDS))], [NodeTable(table=nodes)]))
        assert report.warnings == ()
        assert report.unused == {"nodes": [column, "x"]}
    edge = EdgeTable(ArrayTable("edges", ENDS), ("user", "knows", "user"))
    nodes = ArrayTable("users", {"User_ID": values[1], "x": np.ones(3)})
    with pytest.warns(UserWarning, match="users: nodes of type 'user' .*'User_ID'"):
        convert(tmp_path, Description([edge], [NodeTable("user", nodes)]))


def test_unknown_ids_name_the_column_of_ids_where_none_was_given(tmp_path):
    nodes = {"id": np.array([1, 2, 3]), "x": np.ones(3)}
    edge = EdgeTable(ArrayTable("edges", {"src": np.array([1]), "dst": np.array([3])}))
    items = Items("train", ArrayTable("train", {"id": np.array([3])}))
    message = "there is no node with the id 3 of '{}'; nodes are numbered .* by the rows of nodes: pass --id {} "
    fine = EdgeTable(ArrayTable("edges", {"src": np.array([0]), "dst": np.array([1])}))
    for name in ("id", "key"):
        node = NodeTable(table=ArrayTable("nodes", {name: nodes["id"], "x": nodes["x"]}))
        hint = "id" if name == "id" else "COLUMN"
        for column, description in (
            ("dst", Description([edge], [node])),
            ("id", Description([fine], [node], [items])),
        ):
            with warnings.catch_warnings(), pytest.raises(hr.InputError, match=message.format(column, hint)):
                warnings.simplefilter("ignore", UserWarning)
                convert(tmp_path, description)
    node = NodeTable(table=ArrayTable("nodes", {"x": nodes["x"]}), features={"x": "x"})
    with pytest.raises(hr.InputError, match="the id 3 of 'dst'; add the node"):
        convert(tmp_path, Description([edge], [node]))
    texts = EdgeTable(ArrayTable("edges", {"src": np.array(["a"], object), "dst": np.array(["b"], object)}))
    node = NodeTable(table=ArrayTable("nodes", {"name": np.array(["a", "b"], object)}))
    with pytest.raises(hr.InputError, match=r"integers in nodes \(row numbers\); pass --id COLUMN"):
        convert(tmp_path, Description([texts], [node]))


@pytest.mark.parametrize("known", [0, 2, 3])
def test_half_of_the_edges_or_more_that_are_left_out_are_warned_of(tmp_path, known):
    src = np.array([0] * known + [7] * (4 - known))
    edges = ArrayTable("edges", {"src": src, "dst": np.zeros(4, int)})
    tables = Description([EdgeTable(edges)], [NodeTable(num_nodes=2)], options=Options(unknown_ids="drop"))
    if known == 3:
        assert convert(tmp_path, tables)[1].warnings == ()
        return
    with pytest.warns(UserWarning, match=f"{4 - known} of 4 rows of edges are left out, .*src and dst swapped") as told:
        data, report = convert(tmp_path, tables)
    assert "/tests/" in told[0].filename  # where a user would call it
    assert data.graph.num_edges == known
    assert f"  warning: {4 - known} of 4 rows" in str(report)


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


@pytest.mark.parametrize("labels", [["a", "", "b", ""], ["1", "", "2", ""], ["1.5", "", "2.5", ""]])
def test_labels_that_are_missing_are_counted_also_when_a_killed_run_goes_on(labels, tmp_path, monkeypatch):
    (tmp_path / "nodes.csv").write_text("label,x\n" + "".join(f"{one},1\n" for one in labels))
    (tmp_path / "edges.csv").write_text("src,dst\n0,1\n2,3\n")
    text = '[nodes]\nfiles = "nodes.csv"\nlabels = "label"\n[edges]\nfiles = "edges.csv"\nsrc = "src"\ndst = "dst"\n'
    (tmp_path / "set.toml").write_text(text)
    with monkeypatch.context() as killed:
        killed.setattr(Manifest, "write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            convert(tmp_path, read_source(tmp_path / "set.toml"))
    _, report = convert(tmp_path, read_source(tmp_path / "set.toml"))
    assert report.counts["labels label of node that are missing"] == 2


LABELLED_EDGES = """
[edges]
files = "edges.csv"
labels = "y"
split = "part"
[items.pairs]
files = "edges.csv"
ids = ["src", "dst"]
labels = "z"
[options]
"""


@pytest.mark.parametrize("option", ["", "loops = 'drop'", "reverse = true", "undirected = true", "loops = 'add'"])
def test_labels_of_edges_and_items_that_are_missing_are_counted(option, tmp_path, monkeypatch):
    """Of the rows that stay, each once, however many edges are added."""
    (tmp_path / "edges.csv").write_text("src,dst,y,z,part\n0,1,a,1,train\n1,2,,,\n1,1,,2,\n2,0,b,,train\n3,2,,3,\n")
    (tmp_path / "set.toml").write_text(LABELLED_EDGES + option)
    with monkeypatch.context() as killed:
        killed.setattr(Manifest, "write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            convert(tmp_path, read_source(tmp_path / "set.toml"))
    _, report = convert(tmp_path, read_source(tmp_path / "set.toml"))
    assert report.counts["labels y of edges that are missing"] == (2 if "drop" in option else 3)
    assert report.counts["labels z of items pairs that are missing"] == 2


def test_nulls_and_texts_of_edges_name_labels_as_the_way_around(tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst,w,channel\n0,1,1,web\n1,0,,shop\n")

    def described(**fields):
        return description_of({"edges": {"files": "edges.csv", **fields}}, tmp_path, "t")

    for fields, message in (
        ({"weight": "w"}, "row 3: expected a number in 'w' for attribute 'weight', got null; .*column labels of edges"),
        ({"features": "w"}, "row 3: expected a number in 'w' for a feature, got null; .* make the column labels"),
        ({"weight": "channel"}, "attribute 'weight', got the text 'web' .*; correct it, or name a column of numbers"),
        ({"attributes": "channel"}, "attribute 'channel', got the text 'web' .* column of texts labels"),
        ({"features": "channel"}, "feature 'channel', got the text 'web' .* labels = 'channel'"),
    ):
        with pytest.raises(hr.InputError, match=message):
            convert(tmp_path, described(**fields))
    data, _ = convert(tmp_path, described(labels="channel"))
    assert data.store.edge["channel"].read(torch.arange(2)).rows.tolist() == [1, 0]


def keys_of_edges(**fields):
    table = ArrayTable("edges", {"user": np.array([7, 7, 9, 5]), "film": np.array([5, 8, 7, 5])})
    return EdgeTable(table, src="user", dst="film", **fields)


def test_keys_of_both_columns_that_become_one_node_are_counted(tmp_path):
    what = "ids that are both in 'user' and in 'film', one node each (if they are of two types, describe these in TOML)"
    _, report = convert(tmp_path, Description([keys_of_edges()], [NodeTable(external=True)]))
    assert report.counts == {what: 2}
    assert report.nodes == {"node": 4}
    assert f"  {what}: 2\n" in str(report)
    texts = ArrayTable("edges", {"user": np.array(["a", "b", "a"], object), "film": np.array(["c", "a", "b"], object)})
    _, report = convert(tmp_path, Description([EdgeTable(texts, src="user", dst="film")]))
    assert report.counts == {what: 2}
    # A table of nodes, types and numbers of nodes say what ids are of.
    node = ArrayTable("nodes", {"id": np.array([5, 7, 8, 9])})
    types = [NodeTable("a", external=True), NodeTable("b", external=True)]
    for description in (
        Description([keys_of_edges()], [NodeTable(table=node, id="id")]),
        Description([keys_of_edges(type=("a", "to", "b"))], types),
        Description([keys_of_edges(type=("a", "to", "a"))], types[:1]),
        Description([keys_of_edges()]),
    ):
        _, report = convert(tmp_path, description)
        assert report.counts == {}


def test_times_are_no_weights(tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst,when\n0,1,2024-05-31\n")
    (tmp_path / "set.toml").write_text(
        '[edges]\nfiles = "edges.csv"\nsrc = "src"\ndst = "dst"\nweight = "when"\ntime = "when"\n'
    )
    with pytest.raises(hr.InputError, match=r"expected weights, got times in .*edges\.csv when"):
        convert(tmp_path, read_source(tmp_path / "set.toml"))
