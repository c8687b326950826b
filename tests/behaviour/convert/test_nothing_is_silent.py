"""What would be converted to something else than was meant is refused, or named, before work starts."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import torch
from shell import main
from stopped import stop_late
from table_files import Description, EdgeTable, Items, NodeTable, Options, Table, converted, write, write_toml

import headrace as hr

SRC, DST = np.array([0, 2, 2, 1]), np.array([1, 1, 0, 0])
ENDS = {"src": SRC, "dst": DST}


def convert(tmp_path, description):
    """The data set, and what the conversion has counted."""
    data = converted(description, tmp_path)
    return data, data.notes["counts"]


def described(tmp_path, sections, out="data"):
    """The data set of a description in TOML, and what the conversion has counted."""
    source = write_toml(tmp_path / "described.toml", sections)
    data = hr.convert(source, tmp_path / out, progress=False, overwrite=True)
    return data, data.notes["counts"]


def test_a_pattern_that_names_no_file_is_named_as_it_was_written(tmp_path):
    with pytest.raises(hr.InputError, match=rf"expected files, got '{tmp_path}/view/\*\.csv', which names none"):
        described(tmp_path, {"edges": {"files": "view/*.csv"}})


def test_a_type_of_nodes_that_was_misspelt(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n")
    (tmp_path / "n.csv").write_text("x\n1\n2\n")
    edges = {'edges."user,buys,itme"': {"files": "e.csv"}}
    nodes = {"nodes.user": {"files": "n.csv"}, "nodes.item": {}}
    with pytest.raises(hr.InputError, match=r"edges user,buys,itme: .*got 'itme'; did you mean item\?"):
        described(tmp_path, {**edges, **nodes})
    with pytest.raises(hr.InputError, match=r"got 'itme'; add \[nodes.itme\]"):
        described(tmp_path, {**edges, "nodes.user": {}})
    assert described(tmp_path, {**edges, **nodes, "nodes.itme": {}})[0].graph.num_edges == 1
    assert described(tmp_path, edges)[0].graph.edge_types.names == (("user", "buys", "itme"),)


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf, -1])
def test_weights_that_nothing_can_be_drawn_by(tmp_path, value):
    table = Table("edges", {**ENDS, "w": np.array([1, 0, value, 1.0]), "loop": np.array([0, 0, 0, 0.0])})
    for edge in (EdgeTable(table, weight="w"), EdgeTable(table, attributes={"my_weight": "w"})):
        with pytest.raises(
            hr.InputError, match=rf"edges.parquet, row 2: expected a weight that is finite.*'w', got {value}"
        ):
            convert(tmp_path, Description([edge]))
    convert(tmp_path, Description([EdgeTable(table, attributes={"other": "w"})]))
    # Of edges that are left out nothing is asked.
    edge = EdgeTable(Table("edges", {"src": SRC, "dst": np.array([1, 1, 2, 0]), "w": np.array([1, 0, value, 1.0])}))
    drop = Options(loops="drop")
    data, _ = convert(tmp_path, Description([EdgeTable(edge.table, weight="w")], options=drop))
    assert data.graph.edge_attrs["weight"].tolist() == [1, 0, 1]


def test_names_of_splits(tmp_path):
    """Of columns of names, of masks, of tables of items, of objects: val is called that everywhere."""
    names = np.array(["Train", "valid", "validation", "val", "TEST", "mine"], object)
    masks = {"is_train": np.arange(6) < 2, "is_valid": np.arange(6) > 3}
    nodes = Table("nodes", {"split": names, **masks})
    edge = EdgeTable(Table("edges", ENDS))
    data, _ = convert(tmp_path, Description([edge], [NodeTable(table=nodes, splits="split")]))
    assert {name: items.ids.tolist() for name, items in data.items.items()} == {
        "train": [0],
        "val": [1, 2, 3],
        "test": [4],
        "mine": [5],
    }
    node = NodeTable(table=nodes, splits={"train": "is_train", "valid": "is_valid"})
    items = [Items("validation", Table("more", {"id": np.array([2])}))]
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
    def printed(*arguments):
        capsys.readouterr()
        assert main(list(map(str, arguments))) == 0
        return capsys.readouterr().out

    source = write(Description([EdgeTable(Table("edges", ENDS))]), tmp_path / "tables")
    command = ["convert", source, tmp_path / "data", "--overwrite"]
    assert "former data set" not in printed(*command)
    printed("partition", tmp_path / "data", "--parts", "2")
    assert "parts/hash-2 of the former data set would be removed" in printed(*command, "--dry-run")
    printed("reorder", tmp_path / "data", tmp_path / "other")
    printed("partition", tmp_path / "other", "--parts", "3")
    told = printed("reorder", tmp_path / "data", tmp_path / "other", "--overwrite")
    assert "parts/hash-3 of the former data set is removed" in told
    printed("partition", tmp_path / "data", "--parts", "3")
    assert "parts/hash-2, parts/hash-3 of the former data set are removed" in printed(*command)
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
    sections = {
        "edges": {"files": "e.csv", "weight": "w"},
        "nodes": {"files": "n.csv", "features": ["x*"], "splits": {"train": "is_train"}},
    }
    source = write_toml(tmp_path / "g.toml", sections)
    for dry_run, is_made in ((["--dry-run"], "would be"), ([], "is")):
        assert main(["convert", str(source), str(tmp_path / "data"), *dry_run]) == 0
        report = capsys.readouterr().out
        assert report.startswith(f"{tmp_path / 'data'} {is_made} a data set of:\n")
        assert f"columns of {tmp_path / 'n.csv'} that are not used: a, note\n" in report
        assert f"columns of {tmp_path / 'e.csv'} that are not used: kind, when\n" in report
    sections["items.pairs"] = {"files": "e.csv", "ids": ["src", "dst"], "labels": "kind"}
    source = write_toml(tmp_path / "more.toml", sections)
    assert main(["convert", str(source), str(tmp_path / "more")]) == 0
    assert f"columns of {tmp_path / 'e.csv'} that are not used: when\n" in capsys.readouterr().out
    assert main(["convert", str(tmp_path), str(tmp_path / "set"), "--edges", "e.csv"]) == 0
    assert f"columns of {tmp_path / 'e.csv'} that are not used: w, kind, when\n" in capsys.readouterr().out
    wide = Table("wide", {**ENDS, **{f"c{i}": SRC for i in range(14)}})
    source = write(Description([EdgeTable(wide)]), tmp_path / "tables")
    assert main(["convert", str(source), str(tmp_path / "set"), "--overwrite"]) == 0
    assert "c10, c11 and 2 more\n" in capsys.readouterr().out


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
    """Warnings are errors in tests."""
    values = [np.arange(3), np.array([1, 2, 3])]
    for column, ids in (("id", values[0]), ("group_id", values[1]), ("user_id", values[0])):
        nodes = Table("nodes", {column: ids, "x": np.ones(3)})
        convert(tmp_path, Description([EdgeTable(Table("edges", ENDS))], [NodeTable(table=nodes)]))
    edge = EdgeTable(Table("edges", ENDS), ("user", "knows", "user"))
    nodes = Table("users", {"User_ID": values[1], "x": np.ones(3)})
    with pytest.warns(UserWarning, match=r"users.parquet: nodes of type 'user' .*'User_ID'"):
        convert(tmp_path, Description([edge], [NodeTable("user", nodes)]))


def test_unknown_ids_name_the_column_of_ids_where_none_was_given(tmp_path):
    nodes = {"id": np.array([1, 2, 3]), "x": np.ones(3)}
    edge = EdgeTable(Table("edges", {"src": np.array([1]), "dst": np.array([3])}))
    items = Items("train", Table("train", {"id": np.array([3])}))
    message = (
        "there is no node with the id 3 of '{}'; nodes are numbered .* by the rows of .*nodes.parquet: pass --id {} "
    )
    fine = EdgeTable(Table("edges", {"src": np.array([0]), "dst": np.array([1])}))
    for name in ("id", "key"):
        node = NodeTable(table=Table("nodes", {name: nodes["id"], "x": nodes["x"]}))
        hint = "id" if name == "id" else "COLUMN"
        for column, description in (
            ("dst", Description([edge], [node])),
            ("id", Description([fine], [node], [items])),
        ):
            with warnings.catch_warnings(), pytest.raises(hr.InputError, match=message.format(column, hint)):
                warnings.simplefilter("ignore", UserWarning)
                convert(tmp_path, description)
    node = NodeTable(table=Table("nodes", {"x": nodes["x"]}), features={"x": "x"})
    with pytest.raises(hr.InputError, match="the id 3 of 'dst'; add the node"):
        convert(tmp_path, Description([edge], [node]))
    texts = EdgeTable(Table("edges", {"src": np.array(["a"], object), "dst": np.array(["b"], object)}))
    node = NodeTable(table=Table("nodes", {"name": np.array(["a", "b"], object)}))
    with pytest.raises(hr.InputError, match=r"integers in .*nodes.parquet \(row numbers\); pass --id COLUMN"):
        convert(tmp_path, Description([texts], [node]))


@pytest.mark.parametrize("known", [0, 2, 3])
def test_half_of_the_edges_or_more_that_are_left_out_are_warned_of(tmp_path, known):
    src = np.array([0] * known + [7] * (4 - known))
    edges = Table("edges", {"src": src, "dst": np.zeros(4, int)})
    tables = Description([EdgeTable(edges)], [NodeTable(num_nodes=2)], options=Options(unknown_ids="drop"))
    if known == 3:
        assert convert(tmp_path, tables)[0].graph.num_edges == known
        return
    with pytest.warns(
        UserWarning, match=f"{4 - known} of 4 rows of .*edges.parquet are left out, .*src and dst swapped"
    ) as told:
        data, _ = convert(tmp_path, tables)
    assert "/tests/" in told[0].filename  # where a user would call it
    assert data.graph.num_edges == known


@pytest.mark.parametrize("labels", [["a", "", "b", ""], ["1", "", "2", ""], ["1.5", "", "2.5", ""]])
def test_labels_that_are_missing_are_counted_also_when_a_stopped_run_goes_on(labels, tmp_path):
    (tmp_path / "nodes.csv").write_text("label,x\n" + "".join(f"{one},1\n" for one in labels))
    (tmp_path / "edges.csv").write_text("src,dst\n0,1\n2,3\n")
    text = '[nodes]\nfiles = "nodes.csv"\nlabels = "label"\n[edges]\nfiles = "edges.csv"\nsrc = "src"\ndst = "dst"\n'
    (tmp_path / "set.toml").write_text(text)

    def convert_set(out):
        return hr.convert(tmp_path / "set.toml", out, progress=False)

    stop_late(convert_set, tmp_path / "data")
    counts = convert_set(tmp_path / "data").notes["counts"]
    assert counts["labels label of node that are missing"] == 2


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


@pytest.mark.slow
@pytest.mark.parametrize("option", ["", "loops = 'drop'", "reverse = true", "undirected = true", "loops = 'add'"])
def test_labels_of_edges_and_items_that_are_missing_are_counted(option, tmp_path):
    """Of the rows that stay, each once, however many edges are added."""
    (tmp_path / "edges.csv").write_text("src,dst,y,z,part\n0,1,a,1,train\n1,2,,,\n1,1,,2,\n2,0,b,,train\n3,2,,3,\n")
    (tmp_path / "set.toml").write_text(LABELLED_EDGES + option)

    def convert_set(out):
        return hr.convert(tmp_path / "set.toml", out, progress=False)

    stop_late(convert_set, tmp_path / "data")
    counts = convert_set(tmp_path / "data").notes["counts"]
    assert counts["labels y of edges that are missing"] == (2 if "drop" in option else 3)
    assert counts["labels z of items pairs that are missing"] == 2


def test_nulls_and_texts_of_edges_name_labels_as_the_way_around(tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst,w,channel\n0,1,1,web\n1,0,,shop\n")

    for fields, message in (
        ({"weight": "w"}, "row 3: expected a number in 'w' for attribute 'weight', got null; .*column labels of edges"),
        ({"features": "w"}, "row 3: expected a number in 'w' for a feature, got null; .* make the column labels"),
        ({"weight": "channel"}, "attribute 'weight', got the text 'web' .*; correct it, or name a column of numbers"),
        ({"attributes": "channel"}, "attribute 'channel', got the text 'web' .* column of texts labels"),
        ({"features": "channel"}, "feature 'channel', got the text 'web' .* labels = 'channel'"),
    ):
        with pytest.raises(hr.InputError, match=message):
            described(tmp_path, {"edges": {"files": "edges.csv", **fields}})
    data, _ = described(tmp_path, {"edges": {"files": "edges.csv", "labels": "channel"}})
    assert data.store.edge["channel"].read(torch.arange(2)).rows.tolist() == [1, 0]


def keys_of_edges(**fields):
    table = Table("edges", {"user": np.array([7, 7, 9, 5]), "film": np.array([5, 8, 7, 5])})
    return EdgeTable(table, src="user", dst="film", **fields)


def test_keys_of_both_columns_that_become_one_node_are_counted(tmp_path):
    what = "ids that are both in 'user' and in 'film', one node each (if they are of two types, describe these in TOML)"
    data, counts = convert(tmp_path, Description([keys_of_edges()], [NodeTable(external=True)]))
    assert counts == {what: 2}
    assert data.graph.num_nodes == 4
    texts = Table("edges", {"user": np.array(["a", "b", "a"], object), "film": np.array(["c", "a", "b"], object)})
    _, counts = convert(tmp_path, Description([EdgeTable(texts, src="user", dst="film")]))
    assert counts == {what: 2}
    # A table of nodes, types and numbers of nodes say what ids are of.
    node = Table("nodes", {"id": np.array([5, 7, 8, 9])})
    types = [NodeTable("a", external=True), NodeTable("b", external=True)]
    for description in (
        Description([keys_of_edges()], [NodeTable(table=node, id="id")]),
        Description([keys_of_edges(type=("a", "to", "b"))], types),
        Description([keys_of_edges(type=("a", "to", "a"))], types[:1]),
        Description([keys_of_edges()]),
    ):
        _, counts = convert(tmp_path, description)
        assert counts == {}


def test_times_are_no_weights(tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst,when\n0,1,2024-05-31\n")
    (tmp_path / "set.toml").write_text(
        '[edges]\nfiles = "edges.csv"\nsrc = "src"\ndst = "dst"\nweight = "when"\ntime = "when"\n'
    )
    with pytest.raises(hr.InputError, match=r"expected weights, got times in .*edges\.csv when"):
        hr.convert(tmp_path / "set.toml", tmp_path / "data", progress=False)


def test_integers_that_no_common_type_has(tmp_path):
    """Signed and unsigned side by side are floating point, which has no 19 digits."""
    columns = {**ENDS, "a": np.array([2**53, 1, 2, 3], np.uint64), "b": np.array([-1, 0, 0, 0], np.int8)}
    feature = {"x": ("a", "b")}
    data, _ = convert(tmp_path, Description([EdgeTable(Table("edges", columns), features=feature)]))
    assert data.store.edge["x"].read(torch.arange(4)).rows.max() == 2**53
    columns["a"][2] += 2**53
    with pytest.raises(hr.InputError, match=r"edges.parquet, row 2: expected an integer up to 2\*\*53 in 'a'.*got 90"):
        convert(tmp_path, Description([EdgeTable(Table("edges", columns), features=feature)]))
    columns["b"] = columns["b"] + 0.5
    with pytest.raises(hr.InputError, match=r"row 2: expected an integer up to 2\*\*53 in 'a', as only floating point"):
        convert(tmp_path, Description([EdgeTable(Table("edges", columns), features=feature)]))


def test_vectors_of_nothing(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table({**ENDS, "x": pa.array([[]] * 4, pa.list_(pa.float32()))})
    parquet.write_table(table, tmp_path / "e.parquet")
    with pytest.raises(hr.InputError, match=r"e.parquet, row 0: expected a vector of numbers in 'x', got one of none"):
        described(tmp_path, {"edges": {"files": "e.parquet", "features": ["x"]}})


def test_all_classes_are_in_the_notes(tmp_path):
    (tmp_path / "n.csv").write_text("y\n" + "".join(f"class {i}\n" for i in range(20_000)))
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n")
    data, _ = described(tmp_path, {"nodes": {"files": "n.csv", "labels": "y"}, "edges": {"files": "e.csv"}})
    assert sum(len(source.get("classes", {}).get("y", [])) for source in data.notes["sources"]) == 20_000


def test_one_row_that_may_be_a_number_or_a_list(tmp_path):
    """No one reads the column, so nothing needs to know."""
    (tmp_path / "n.csv").write_text('a,y\n"3,99",1\n')
    (tmp_path / "e.csv").write_text("src,dst\n0,0\n")
    data, _ = described(tmp_path, {"nodes": {"files": "n.csv", "labels": "y"}, "edges": {"files": "e.csv"}})
    assert data.graph.num_nodes == 1
