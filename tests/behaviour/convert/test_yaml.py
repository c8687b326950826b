"""YAML of GraphBolt and DGL: the plain part of YAML 1.2, and what is refused is named with its line."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from source_folders import dgl_csv, graphbolt

import headrace as hr

GRAPH = "graph:\n  nodes:\n  - num: 2\n  edges:\n  - format: csv\n    path: e.csv\n"


def converted(folder, text):
    """The data set of a folder of GraphBolt with two nodes and an edge, and this metadata.yaml."""
    folder.mkdir(exist_ok=True)
    (folder / "e.csv").write_text("0,1\n")
    (folder / "metadata.yaml").write_text(text, encoding="utf-8")
    return hr.convert(folder, folder.with_name("out"), progress=False, overwrite=True)


def task(folder, fields):
    """The notes of one task with these fields."""
    lines = "".join(f"  {line}\n" for line in f"name: t\n{fields}".splitlines())
    return converted(folder, GRAPH + "tasks:\n-" + lines[1:]).notes["tasks"][0]


def test_words_of_yaml_1_1_are_texts(tmp_path):
    """Country codes, names of switches, dates, times and numbers with underscores are as they are written."""
    fields = task(
        tmp_path / "source",
        "country: no\nswitch: on\nword: yes\nletter: y\nday: 2024-05-31\ntime: 12:30:45\nbig: 1_000\n"
        "octal: 010\nmerge: <<\nvalue: '='\nno: 3\n1: one",
    )
    assert fields == {
        "name": "t",
        "country": "no",
        "switch": "on",
        "word": "yes",
        "letter": "y",
        "day": "2024-05-31",
        "time": "12:30:45",
        "big": "1_000",
        "octal": 10,
        "merge": "<<",
        "value": "=",
        "no": 3,
        "1": "one",
    }


def test_values_of_yaml_1_2(tmp_path):
    fields = task(
        tmp_path / "source",
        "a: [true, False, TRUE, null, ~, 1, -2, +3, 0x1F, 0o17, 1.5, .5, 1e3, 'true', \"null\", 'it''s']\n"
        'b: {c: "d\\te", f: }\ng:\nh: |\n  two\n  lines\ni: two\n  words\nj: x # y\nk: "x # y"',
    )
    assert fields["a"] == [True, False, True, None, None, 1, -2, 3, 31, 15, 1.5, 0.5, 1000, "true", "null", "it's"]
    assert fields["b"] == {"c": "d\te", "f": None}
    assert [fields[name] for name in "ghijk"] == [None, "two\nlines\n", "two words", "x", "x # y"]


@pytest.mark.parametrize(("write", "name"), [(graphbolt, "metadata.yaml"), (dgl_csv, "meta.yaml")])
def test_a_byte_order_mark_is_taken(write, name, tmp_path):
    """Editors of Windows write it."""
    write(tmp_path / "source")
    path = tmp_path / "source" / name
    path.write_text("\ufeff" + path.read_text(), encoding="utf-8")
    assert hr.convert(tmp_path / "source", tmp_path / "out", progress=False).graph.num_edges > 0


def test_a_byte_order_mark_in_toml_is_taken(tmp_path):
    np.save(tmp_path / "e.npy", np.array([[0, 1], [1, 0]]))
    text = '\ufeff[edges]\ncolumns = { src = ["e.npy", 0], dst = ["e.npy", 1] }\n'
    (tmp_path / "g.toml").write_text(text, encoding="utf-8")
    assert hr.convert(tmp_path / "g.toml", tmp_path / "out", progress=False).graph.num_edges == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: !!python/object/apply:os.system [id]\n", "line 2: expected no tags, got !!python/object/apply"),
        ("a: !!str 5\n", "line 1: expected no tags, got !!str"),
        ("a: ! 5\n", "line 1: expected no tags, got !"),
        ("a: !own {b: 1}\n", "line 1: expected no tags, got !own"),
        ("a: &anchor 1\n", "line 1: expected no anchors, got &anchor"),
        ("a: 1\nb: *other\n", "line 2: expected no aliases, got \\*other"),
        ("a: 1\nb: 2\na: 3\n", "line 3: expected each key once, got 'a' again"),
        ("a: {b: 1, b: 2}\n", "line 1: expected each key once, got 'b' again"),
        ('"a": 1\na: 2\n', "line 2: expected each key once, got 'a' again"),
        ("[a]: 1\n", "line 1: expected texts as keys"),
        ("a: 1\n---\nb: 2\n", "line 2: expected one document"),
        ("a: [1, 2\n", "line 2: expected YAML, but"),
        ("a:\n\tb: 1\n", "line 2: expected YAML, but"),
        ("a: 1\n  b: 2\n", "line 2: expected YAML, but"),
        ("a: \x07\n", "expected YAML, but"),
        ("a: " + "[" * 100 + "]" * 100 + "\n", "line 1: expected at most 50 levels"),
        ("a: " + "9" * 5000 + "\n", "line 1: expected YAML, but"),
        ("- a\n", "expected fields with names"),
        ("", "expected fields with names"),
    ],
)
def test_what_is_not_plain_is_refused(text, message, tmp_path):
    with pytest.raises(hr.InputError, match=message) as caught:
        converted(tmp_path / "source", text)
    assert "metadata.yaml" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_the_extra_is_named_without_the_library(tmp_path, monkeypatch):
    graphbolt(tmp_path / "source")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match=r"metadata\.yaml needs yaml, .*pip install 'headrace\[convert\]'"):
        hr.convert(tmp_path / "source", tmp_path / "out", progress=False)
