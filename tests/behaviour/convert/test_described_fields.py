"""Fields of TOML that would be ignored, or have another meaning than they seem to have, are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from table_files import write_toml

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
