"""Labels of items in tables of their own: texts are numbered, alike in all tables of items of a type."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from table_files import write_parquet, write_toml

import headrace as hr

KEYS = {"external": True}
EDGES = {"files": "e.csv", "src": "a", "dst": "b"}


def converted(folder, sections, **files: str):
    """The data set of four nodes with the keys 5, 7, 9 and 11, and further sections."""
    for name, text in {"e": "a,b\n5,9\n9,5\n7,11\n", **files}.items():
        (folder / f"{name}.csv").write_text(text)
    graph = {} if any("edges." in name for name in sections) else {"nodes": KEYS, "edges": EDGES}
    source = write_toml(folder / "d.toml", {**graph, **sections})
    return hr.convert(source, folder / "out", progress=False, overwrite=True)


def items(file, **more):
    return {"files": f"{file}.csv", "ids": "txId", "labels": "class", **more}


def classes_of(data):
    return {source["files"][0]["file"]: source["classes"] for source in data.notes["sources"] if "classes" in source}


def test_texts_are_numbered_alike_in_all_tables(tmp_path):
    sections = {"items.train": items("train"), "items.val": items("val"), "items.test": items("test")}
    data = converted(
        tmp_path,
        sections,
        train="txId,class\n5,licit\n9,illicit\n",
        val="txId,class\n7,unknown\n11,illicit\n",
        test="txId,class\n7,\n11,licit\n",
    )
    assert {name: one.labels.tolist() for name, one in data.items.items()} == {
        "train": [1, 0],
        "val": [2, 0],
        "test": [-100, 1],
    }
    texts = {"class": ["illicit", "licit", "unknown"]}
    assert classes_of(data) == {"train.csv": texts, "val.csv": texts, "test.csv": texts}
    assert data.notes["counts"]["labels class of items test that are missing"] == 1


def test_texts_of_nodes_and_of_their_items_are_numbered_alike(tmp_path):
    nodes = {"files": "n.csv", "id": "id", "labels": "class"}
    n, train = "id,class\n5,c\n7,b\n9,\n11,c\n", "txId,class\n5,c\n9,a\n"
    data = converted(tmp_path, {"nodes": nodes, "items.train": items("train")}, n=n, train=train)
    assert data.store.node["class"].read(torch.arange(4)).rows.tolist() == [2, 1, -100, 2]
    assert data.items["train"].labels.tolist() == [2, 0]


def test_types_and_columns_have_numbers_of_their_own(tmp_path):
    sections = {
        "nodes.user": KEYS,
        "nodes.film": KEYS,
        'edges."user,buys,film"': EDGES,
        "items.of_users": items("users", type="user"),
        "items.of_films": items("films", type="film"),
        "items.others": items("others", labels="kind", type="user"),
        "items.links": {"files": "links.csv", "ids": ["a", "b"], "labels": "class", "type": "user,buys,film"},
    }
    data = converted(
        tmp_path,
        sections,
        users="txId,class\n5,b\n9,d\n",
        films="txId,class\n9,c\n5,a\n",
        others="txId,kind\n5,z\n9,y\n",
        links="a,b,class\n5,9,y\n7,11,x\n",
    )
    found = {name: next(iter(one.labels.values())).tolist() for name, one in data.items.items()}
    assert found == {"of_users": [0, 1], "of_films": [1, 0], "others": [1, 0], "links": [1, 0]}


def test_texts_in_one_table_and_numbers_in_another_are_refused(tmp_path):
    """Of Elliptic, whose classes are 1, 2 and unknown."""
    files = {"train": "txId,class\n5,1\n9,2\n", "test": "txId,class\n7,unknown\n11,2\n"}
    sections = {"items.train": items("train"), "items.test": items("test")}
    message = (
        r"labels 'class' .* got texts in .*test\.csv and numbers in .*train\.csv; .*types = \{ class = \"text\" \}"
    )
    with pytest.raises(hr.InputError, match=message):
        converted(tmp_path, sections, **files)
    text = {"types": {"class": "text"}}
    data = converted(tmp_path, {"items.train": items("train", **text), "items.test": items("test", **text)}, **files)
    assert {name: one.labels.tolist() for name, one in data.items.items()} == {"train": [0, 1], "test": [2, 1]}


def test_a_table_without_labels_beside_one_with_texts(tmp_path):
    sections = {"items.train": items("train"), "items.test": items("test")}
    data = converted(tmp_path, sections, train="txId,class\n5,b\n9,a\n", test="txId,class\n7,\n11,\n")
    assert data.items["train"].labels.tolist() == [1, 0]
    assert data.items["test"].labels.isnan().all()


def test_labels_of_parquet(tmp_path):
    for name, texts in {"train": ["b", None], "test": ["a", "b"]}.items():
        write_parquet(tmp_path / f"{name}.parquet", {"txId": np.array([5, 9]), "class": np.array(texts, object)})
    sections = {f"items.{name}": items(name, files=f"{name}.parquet") for name in ("train", "test")}
    data = converted(tmp_path, sections)
    assert {name: one.labels.tolist() for name, one in data.items.items()} == {"train": [1, -100], "test": [0, 1]}
