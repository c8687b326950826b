"""Conversions that are killed, interrupted, run out of disk, or whose files change."""

from __future__ import annotations

import errno
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from shell import main
from stopped import num_synced, stop, stop_late
from table_files import write_toml

import headrace as hr

from copies import Process
from described_tables import differences

KILLED = """
import os, signal, sys
import headrace as hr

source, out, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
EVENTS = "open", "os.rename", "os.remove", "os.truncate", "os.link", "os.mkdir", "os.rmdir", "shutil.rmtree"

def count(event, arguments):
    global left
    if event in EVENTS and os.path.dirname(out) in str(arguments[0]):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
hr.convert(source, out, progress=False)
"""


@pytest.fixture
def source(tmp_path):
    """Tables of which passes take some files each."""
    rng = np.random.default_rng(3)
    arrays = {
        "edges": rng.integers(0, 40, (2, 300)),
        "w": rng.random(300),
        "f": rng.random((300, 2)),
        "keys": rng.permutation(40) + 7,
        "x": rng.random((40, 3)),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    return described(tmp_path, src=0, dst=1)


def described(folder: Path, src: int, dst: int) -> Path:
    columns = {"src": ["edges.npy", src], "dst": ["edges.npy", dst], "w": "w.npy", "f": "f.npy"}
    sections = {
        "edges": {"columns": columns, "weight": "w", "features": {"f": "f"}},
        "nodes": {"columns": {"key": "keys.npy", "x": "x.npy"}, "id": "key", "features": "x"},
        "options": {"unknown_ids": "drop", "duplicate_edges": "drop", "undirected": True, "loops": "add"},
    }
    return write_toml(folder / "g.toml", sections)


def converted(source: Path, out: Path) -> hr.Dataset:
    return hr.convert(source, out, progress=False)


@pytest.mark.slow
def test_a_killed_conversion_goes_on_and_gives_the_same_bytes(source, tmp_path):
    converted(source, tmp_path / "whole")
    out, killed = tmp_path / "data", 0
    for moment in np.random.default_rng(11).integers(10, 60, 12).tolist():
        if Process(KILLED, source, out, moment).wait(60) == -signal.SIGKILL:
            killed += 1
            assert not out.exists() or not differences(out, tmp_path / "whole")
        if out.exists():
            break
    assert killed > 3
    if not out.exists():
        assert Process(KILLED, source, out, 10**9).wait(60) == 0
    assert not differences(out, tmp_path / "whole")


@pytest.mark.parametrize("part", [0.3, 0.6])
def test_passes_that_are_finished_are_not_run_again(source, tmp_path, part):
    def convert(out: Path) -> hr.Dataset:
        return converted(source, out)

    out, whole, work = tmp_path / "data", tmp_path / "whole", tmp_path / ".data.converting"
    all_synced = num_synced(convert, whole)
    error = stop(convert, out, round(part * all_synced))
    assert re.search(rf"the disk is full \({work}/\S+\); make room and convert again: finished passes", str(error))
    assert num_synced(convert, out) < all_synced
    assert not differences(out, whole)
    assert hr.open_dataset(out).notes["counts"] == hr.open_dataset(whole).notes["counts"]
    assert not work.exists()


@pytest.mark.parametrize("number", [errno.EFBIG, errno.EIO])
def test_errors_of_the_system_name_the_file_and_what_is_kept(source, tmp_path, number):
    error = stop(lambda out: converted(source, out), tmp_path / "data", 1, number)
    work = tmp_path / ".data.converting"
    assert ("raise that limit (ulimit -f)" in str(error)) == (number == errno.EFBIG)
    assert f"({work}/" in str(error)
    assert f"and convert again: finished passes are kept in {work}" in str(error)


def test_an_interruption_names_what_is_kept(source, tmp_path, monkeypatch, capsys):
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    command, work = ["convert", str(source), str(tmp_path / "data")], tmp_path / ".data.converting"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        assert main(command) == 130
    error = capsys.readouterr().err
    assert error.startswith("headrace: interrupted; ")
    assert f"kept in {work}, and the same conversion goes on" in error
    assert error.count("\n") == 1
    assert work.exists()
    assert main(command) == 0
    assert not work.exists()


def test_another_description_begins_anew(source, tmp_path):
    stop_late(lambda out: converted(source, out), tmp_path / "data")
    other = described(tmp_path, src=1, dst=0)
    converted(other, tmp_path / "data")
    converted(other, tmp_path / "whole")
    assert not differences(tmp_path / "data", tmp_path / "whole")


def test_files_that_change_while_they_are_read_are_refused(tmp_path, monkeypatch):
    path, fsync = tmp_path / "edges.csv", os.fsync
    path.write_text("src,dst\n0,1\n1,2\n")
    source = write_toml(tmp_path / "g.toml", {"edges": {"files": "edges.csv"}})

    def change(number: int) -> None:
        path.write_text("src,dst\n0,1\n1,2\n2,0\n")
        fsync(number)

    monkeypatch.setattr(os, "fsync", change)
    with pytest.raises(hr.InputError, match=r"edges.csv changed while it was read"):
        converted(source, tmp_path / "data")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["edges.csv", "g.toml"]


def test_two_conversions_to_one_folder(source, tmp_path, monkeypatch):
    fsync, refusals = os.fsync, []

    def second(number: int) -> None:
        if not refusals:
            with pytest.raises(hr.InputError, match="nobody else to convert to") as refused:
                converted(source, tmp_path / "data")
            refusals.append(refused.value)
        fsync(number)

    monkeypatch.setattr(os, "fsync", second)
    converted(source, tmp_path / "data").verify()
    assert refusals


@pytest.mark.parametrize(
    "files", [{"mine.txt": "mine"}, {"journal": "dear diary\n", "mine.txt": ""}, {"journal": "", "a": "b"}]
)
def test_a_folder_that_no_conversion_has_made_is_left_alone(source, tmp_path, files):
    work = tmp_path / ".data.converting"
    work.mkdir()
    for name, text in files.items():
        (work / name).write_text(text)
    with pytest.raises(hr.InputError, match=r"\.data\.converting to be the work folder .*without its journal; move it"):
        converted(source, tmp_path / "data")
    assert {one.name: one.read_text() for one in work.iterdir()} == files


@pytest.mark.parametrize("files", [{}, {"journal.part": "{"}, {"journal": ""}])
def test_what_a_killed_conversion_left_is_used_again(source, tmp_path, files):
    work = tmp_path / ".data.converting"
    work.mkdir()
    for name, text in files.items():
        (work / name).write_text(text)
    assert converted(source, tmp_path / "data").graph.num_edges > 0
    assert not work.exists()
