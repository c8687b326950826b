"""Errors that reach the shell name its options beside the arguments of functions."""

from __future__ import annotations

import re

import pytest
from shell import main

import headrace as hr


def refused(capsys, *arguments: object) -> str:
    assert main(list(map(str, arguments))) == 2
    return capsys.readouterr().err


@pytest.fixture
def source(tmp_path):
    (tmp_path / "nodes.csv").write_text("id\na\nb\n")
    (tmp_path / "edges.csv").write_text("src,dst,t\na,b,1\nb,a,1\nb,c,\n")
    return tmp_path


def test_unknown_ids(source, capsys):
    flags = [source, source / "out", "--edges", "edges.csv", "--nodes", "nodes.csv", "--id", "id"]
    text = refused(capsys, "convert", *flags)
    assert "unknown_ids='drop' (--unknown-ids drop: leave such rows out) or 'create' (--unknown-ids create" in text
    assert main([str(one) for one in ("convert", *flags, "--unknown-ids", "create")]) == 0


def test_python_takes_the_options_of_the_shell(source):
    """Messages advise arguments that `hr.convert` has; what it is given stands before what TOML says."""
    text = '[edges]\nfiles = "edges.csv"\n[nodes]\nfiles = "nodes.csv"\nid = "id"\n[options]\nloops = "drop"\n'
    (source / "g.toml").write_text(text)
    with pytest.raises(hr.InputError, match="pass unknown_ids='drop'"):
        hr.convert(source / "g.toml", source / "out", progress=False)
    options = {"unknown_ids": "drop", "undirected": True, "time_unit": "s", "loops": "keep"}
    data = hr.convert(source / "g.toml", source / "out", progress=False, **options)
    assert {name: data.notes["options"][name] for name in options} == options
    assert data.graph.num_edges == 2
    data = hr.convert(source / "g.toml", source / "more", progress=False, unknown_ids="create", duplicate_edges="drop")
    assert data.notes["options"]["loops"] == "drop"
    with pytest.raises(hr.InputError, match="expected loops to be 'keep' or 'drop' or 'add', got 'no'"):
        hr.convert(source / "g.toml", source / "other", progress=False, loops="no")
    for name, value in (("reverse", True), ("null_times", "drop"), ("memory", "4GB")):
        with pytest.raises(hr.InputError, match=f"expected {name}= with files, got '?{value}'? with an object"):
            hr.convert(object(), source / "other", **{name: value})


def test_null_times(source, capsys):
    flags = [source, source / "out", "--edges", "edges.csv", "--time", "t"]
    text = refused(capsys, "convert", *flags)
    assert "null_times='earliest' (--null-times earliest) or 'drop' (--null-times drop)" in text
    assert main([str(one) for one in ("convert", *flags, "--null-times", "earliest")]) == 0


def test_memory(source, capsys):
    flags = [source, source / "out", "--edges", "edges.csv", "--memory", "1MB"]
    size = re.search(r"memory='(\w+)' \(--memory \1\)", refused(capsys, "convert", *flags))
    assert size is not None


@pytest.mark.parametrize("name", ["edges.csv", "texts.parquet", "edges.tsv.gz", "edges.npy"])
def test_a_table_names_the_command(source, capsys, name):
    (source / name).touch()
    text = refused(capsys, "convert", source / name, source / "out")
    assert f"run `headrace convert {source} DATASET --edges {name} --src COLUMN --dst COLUMN`" in text


def test_the_folder_of_the_table_is_named_from_within(source, monkeypatch):
    monkeypatch.chdir(source)
    with pytest.raises(hr.InputError, match=r"`headrace convert \. DATASET --edges edges\.csv "):
        hr.convert("edges.csv", "out", progress=False)
