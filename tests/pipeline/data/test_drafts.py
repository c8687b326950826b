"""Drafts of folders: those of killed runs are removed by the next one, all others stay."""

from __future__ import annotations

import errno
import signal
import sys
from pathlib import Path

import pytest
from part_files import data

import headrace as hr
from headrace.pipeline.data.drafts import hold
from headrace.pipeline.data.new_folder import new_folder

from copies import Process
from plans import graph

pytestmark = [
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="drafts are told apart by Linux's locks and boot id"
    ),
    pytest.mark.timeout(120),
]
OWNERS = hr.Partition.hash(graph().num_nodes, 2)
_REPLACE = """
import os, signal, sys
from pathlib import Path
from headrace.pipeline.data import new_folder as module
from headrace.pipeline.data.new_folder import new_folder
from headrace.pipeline.storage.dataset.contents import contents_of_parts

module._exchange = lambda *_: False  # as of a file system that cannot
rename = Path.rename
def die_midway(self, target):
    if str(target) == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)
Path.rename = die_midway
with new_folder(Path(sys.argv[1]), overwrite=True, contents=contents_of_parts, what="parts") as draft:
    (draft / "new").touch()
"""


def write(path: Path, **options: object) -> None:
    data().partition(OWNERS, path, progress=False, **options)


def hidden(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir() if one.name.startswith("."))


@pytest.mark.slow
def test_a_run_killed_between_the_two_renames_loses_nothing(tmp_path):
    path = tmp_path / "parts"
    write(path)
    assert Process(_REPLACE, path).wait(120) == -signal.SIGKILL
    assert not path.exists()
    with (
        pytest.warns(UserWarning, match=r"put back what was there, as a run ended between"),
        pytest.warns(UserWarning, match="removed 1 unfinished"),
        pytest.raises(hr.InputError, match="or overwrite it"),
    ):
        write(path)
    assert hr.open_dataset(path, rank=1).part.partition == OWNERS
    assert not hidden(tmp_path)


def test_two_runs_do_not_replace_one_folder_at_a_time(tmp_path):
    path = tmp_path / "parts"
    write(path)
    held = hold(path)  # as another run does while it replaces
    try:
        with pytest.raises(
            hr.InputError, match=r"expected nobody else to write .*parts, but another run is writing it"
        ):
            write(path, overwrite=True)
    finally:
        held.let_go()
    hr.open_dataset(path, rank=1)
    assert not hidden(tmp_path)


def test_without_locks_folders_are_written_and_drafts_are_told_of(tmp_path, monkeypatch):
    def no_lock(descriptor, operation):
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr("headrace.pipeline.data.drafts.fcntl.flock", no_lock)
    path = tmp_path / "parts"
    write(path)
    write(path, overwrite=True)
    assert not hidden(tmp_path)
    with new_folder(tmp_path / "other", overwrite=False, contents=lambda _: None, what="parts") as draft:
        assert draft.name.count("-") == 0, "a name by which a run with locks would remove it"
