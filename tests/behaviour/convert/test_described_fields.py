"""Fields of TOML that would be ignored, or have another meaning than they seem to have, are refused by name."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from table_files import write_parquet, write_toml

import headrace as hr


def converted(folder: Path, sections, **files: str) -> hr.Dataset:
    """The data set of a description, beside files of text whose names have a double underscore for the dot."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    source = write_toml(folder / "described.toml", sections)
    data = hr.convert(source, folder / "data", progress=False, overwrite=True)
    data.verify()
    return data


EDGES = {"files": "e.csv"}
PLAIN = {"edges": EDGES, "nodes": {"num_nodes": 4}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "src,dst\n0,x\n1,2\n",
            r"below num_nodes = 4 in 'dst', got the text 'x' in .*e.csv, row 2",
        ),
        ("src,dst\n0,01\n1,02\n", "expected node numbers below num_nodes = 4 in 'dst', got texts"),
        ("src,dst\n" + "0,1\n" * 1000 + "0,x\n", "row 1002: expected an integer"),
    ],
)
def test_ids_that_are_texts_beside_a_number_of_nodes(tmp_path, text, message):
    with pytest.raises(hr.InputError, match=message):
        converted(tmp_path, PLAIN, e__csv=text)
    kind = "user,buys,item"
    typed = {f'edges."{kind}"': EDGES, "nodes.user": {}, "nodes.item": {"num_nodes": 4}}
    with pytest.raises(hr.InputError, match=message):
        converted(tmp_path, typed)


def test_ids_of_items_that_are_texts_beside_a_number_of_nodes(tmp_path):
    items = {"items.train": {"files": "i.csv", "ids": "name"}}
    with pytest.raises(hr.InputError, match=r"num_nodes = 4 in 'name', got the text 'a' in .*i\.csv, row 2"):
        converted(tmp_path, {**PLAIN, **items}, e__csv="src,dst\n0,1\n", i__csv="name\na\n")
    data = converted(tmp_path, {**PLAIN, **items}, i__csv="name\n3\n")
    assert data.items["train"].ids.tolist() == [3]
    assert data.graph.num_nodes == 4


@pytest.mark.parametrize(
    "field",
    [
        {"features": ["x"]},
        {"features": {"x": ["a", "b"]}},
        {"id": "id"},
        {"labels": "y"},
        {"labels": {"y": "class"}},
        {"time": "t"},
        {"split": "part"},
        {"splits": {"train": "is_train"}},
        {"separator": ";"},
        {"names": ["a"]},
        {"types": {"a": "int"}},
    ],
)
@pytest.mark.parametrize("count", [{}, {"num_nodes": 4}, {"external": True}])
def test_columns_of_nodes_without_files(tmp_path, field, count):
    (name,) = field
    for sections in (
        {"edges": EDGES, "nodes": {**count, **field}},
        {'edges."node,to,node"': EDGES, "nodes.node": {**count, **field}},
    ):
        with pytest.raises(hr.InputError, match=f"nodes node: expected files = or columns = with {name}, got none"):
            converted(tmp_path, sections, e__csv="src,dst\n0,1\n")


def test_types_of_nodes_with_the_names_of_fields(tmp_path):
    sections = {'edges."time,has,labels"': EDGES, "nodes.time": {}, "nodes.labels": {"external": True}}
    data = converted(tmp_path, sections, e__csv="src,dst\n0,7\n")
    assert data.graph.node_types.names == ("time", "labels")


WITH_NAMES = {"files": "e.csv", "names": ["src", "dst"]}
KEYS = {"external": True}


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        ("a,b\n0,1\n", {}, r"e\.csv, row 1: .* got the header \['a', 'b'\]; leave names out, pass skip = 1"),
        ("src,dst\nx,y\n", {}, "got the header .*'src', 'dst'"),
        ("x,Dst \n0,1\n,2\n", {}, "got the header"),
        ("from;to\n0;1\n", {"separator": ";"}, "got the header"),
        ("a::b\n0::1\n", {"separator": "::"}, "got the header"),
        ('"a","b"\n"0","1"\n', {}, "got the header"),
        ("a,x\n0,y\n1,2\n", {}, "got the header"),
        ("src,2019\n0,1\n1,2\n", {}, r'got the header .* of a row that is none, types = \{ COLUMN = "text" \}'),
        ("# a,b\n0,1\n", {}, r"got the comment '# a,b'; pass comment = \"#\""),
        ("# a graph\n# a,b\n0,1\n", {}, r"row 1: .*got the comment '# a graph'; pass comment = \"#\""),
        ("\ufeffa,b\n0,1\n", {}, "got the header .*'a', 'b'"),
    ],
)  # fmt: skip
def test_names_of_a_file_that_has_a_header(tmp_path, text, fields, message):
    sections = {"edges": {**WITH_NAMES, **fields}, "nodes": KEYS}
    with pytest.raises(hr.InputError, match=message):
        converted(tmp_path, sections, e__csv=text)


def test_names_of_packed_files_and_of_several(tmp_path):
    sections = {"edges": {**WITH_NAMES, "files": ["a.csv", "b.csv.gz"]}, "nodes": KEYS}
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        file.write("src,dst\n2,3\n")
    with pytest.raises(hr.InputError, match=r"b\.csv\.gz, row 1: .* got the header"):
        converted(tmp_path, sections, a__csv="0,1\n1,2\n")


@pytest.mark.parametrize(
    "text",
    ["0,1\n1,2\n", "a,b\nb,c\n", "#a,#b\n#b,x\n", "a,b\n", ",1\n2,3\n", "x,1\ny,2\n"],
)
def test_names_of_a_file_without_a_header(tmp_path, text):
    sections = {"edges": WITH_NAMES, "nodes": KEYS, "options": {"unknown_ids": "drop"}}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* left out")
        data = converted(tmp_path, sections, e__csv=text)
    assert data.graph.num_edges == sum(line[0] != "," for line in text.splitlines())


def test_a_column_that_was_given_as_texts_has_no_header(tmp_path):
    sections = {"edges": {**WITH_NAMES, "types": {"src": "text", "dst": "text"}}}
    data = converted(tmp_path, sections, e__csv="a,x\n0,y\n1,2\n")
    assert data.ids["node"].external(torch.arange(data.graph.num_nodes)) == ["0", "1", "2", "a", "x", "y"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"separator": ""}, "expected separator to be a text without quotes and line ends, got ''"),
        ({"separator": '"'}, "expected separator to be a text without"),
        ({"separator": "\n"}, "expected separator to be a text without"),
        ({"separator": 3}, "expected separator to be a text without .* got 3"),
        ({"comment": ""}, "expected comment to be one character, got ''"),
        ({"comment": "//"}, "expected comment to be one character, got '//'"),
        ({"escape": "ab"}, "expected escape to be one character, got 'ab'"),
        ({"escape": 1}, "expected escape to be one character, got 1"),
        ({"skip": -1}, "expected skip to be a number of lines, got -1"),
        ({"skip": True}, "expected skip to be a number of lines, got True"),
        ({"skip": "1"}, "expected skip to be a number of lines, got '1'"),
        ({"null_values": [1]}, "null_values: expected a text, or a list of texts"),
        ({"null_value": "NA"}, "did you mean null_values"),
    ],
)
@pytest.mark.parametrize("section", ["edges", "nodes", "items.train"])
def test_fields_of_csv_of_another_kind(tmp_path, section, fields, message):
    sections = {"edges": {"files": "e.csv"}, section: {"files": "e.csv", **fields}}
    with pytest.raises(hr.InputError, match=message):
        converted(tmp_path, sections, e__csv="src,dst\n0,1\n")


@pytest.mark.parametrize("fields", [{"comment": "#"}, {"skip": 1}, {"null_values": "NA"}, {"escape": "\\"}])
def test_fields_of_csv_with_another_format(tmp_path, fields):
    write_parquet(tmp_path / "e.parquet", {"src": np.array([0]), "dst": np.array([1])})
    with pytest.raises(hr.InputError, match=f"{next(iter(fields))}.* with CSV files alone, got e.parquet"):
        converted(tmp_path, {"edges": {"files": "e.parquet", **fields}})


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("# Directed graph\n# src\tdst\n0\t1\n# more\n2\t0\n", {"separator": "\t", "comment": "#"}),
        ("one\ntwo lines\n0,1\n2,0\n", {"skip": 2}),
        ("src,dst\n0,1\n2,0\n", {"skip": 1}),
        ("title\n#\nsrc::dst::w\n0::1::5\n2::0::4\n", {"names": None, "skip": 1, "comment": "#", "separator": "::"}),
        ("0::1\n2::0\n", {"separator": "::"}),
    ],
)  # fmt: skip
def test_comments_lines_to_skip_and_separators(tmp_path, text, fields):
    edges = {name: value for name, value in {**WITH_NAMES, **fields}.items() if value is not None}
    data = converted(tmp_path, {"edges": edges}, e__csv=text)
    assert (data.graph.num_nodes, data.graph.indptr.tolist()) == (3, [0, 1, 2, 2])
    assert data.graph.indices.tolist() == [2, 0]


@pytest.mark.parametrize("null_values", ["unknown", ["NA", "None", "unknown"]])
def test_labels_that_are_missing_by_a_word(tmp_path, null_values):
    nodes = {"files": "n.csv", "labels": ["y", "z"], "null_values": null_values}
    text = "y,z\na,1\nunknown,unknown\n,2\nb,\n"
    data = converted(tmp_path, {"edges": EDGES, "nodes": nodes}, e__csv="src,dst\n0,1\n", n__csv=text)
    assert data.store.node["y"].read(torch.arange(4)).rows.tolist() == [0, -100, -100, 1]
    assert data.store.node["z"].read(torch.arange(4)).rows.tolist() == [1, -100, 2, -100]


def test_quotes_that_are_escaped(tmp_path):
    edges = {"files": "e.csv", "labels": "y", "escape": "\\"}
    data = converted(tmp_path, {"edges": edges}, e__csv='src,dst,y\n0,1,"a \\"b\\", c"\n1,0,d\n')
    assert data.notes["sources"][0]["classes"] == {"y": ['a "b", c', "d"]}
