"""Errors that reach the shell name its options beside the arguments of functions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headrace as hr
from headrace.pipeline import convert
from headrace.pipeline.cli.command_line import main
from headrace.pipeline.convert.formats.source import read_source


def refused(capsys, *arguments: object) -> str:
    assert main(list(map(str, arguments))) == 2
    return capsys.readouterr().err


@pytest.fixture
def source(tmp_path):
    (tmp_path / "nodes.csv").write_text("id\na\nb\n")
    (tmp_path / "edges.csv").write_text("src,dst,t\na,b,1\nb,c,\n")
    return tmp_path


def test_unknown_ids(source, capsys):
    flags = [source, source / "out", "--edges", "edges.csv", "--nodes", "nodes.csv", "--id", "id"]
    text = refused(capsys, "convert", *flags)
    assert "unknown_ids='drop' (--unknown-ids drop: leave such rows out) or 'create' (--unknown-ids create" in text
    assert main([str(one) for one in ("convert", *flags, "--unknown-ids", "create")]) == 0


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
        read_source("edges.csv")


def test_options_of_odd_rows_are_never_named_as_arguments_alone():
    """Wherever a message of a conversion names such an argument, the option is beside it."""
    words = r"(unknown_ids|null_times|duplicate_edges|loops)='\w+'|(external|reverse|undirected)=True"
    for file in Path(convert.__file__).parent.rglob("*.py"):
        for found in re.finditer(rf"(?:pass|without|beside|convert:) (?:{words})(.{{0,9}})", file.read_text()):
            assert "(--" in found.group(3), (file.name, found.group())
