"""Drafts of folders: those of killed runs are removed by the next one, all others stay."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from part_files import data

import headrace as hr

from copies import Process
from plans import graph

pytestmark = [
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="drafts are told apart by Linux's locks and boot id"
    ),
    pytest.mark.timeout(120),
]
OWNERS = hr.Partition.hash(graph().num_nodes, 2)
_WRITE = """
import dataclasses, sys, time, torch, headrace as hr

class Slow(hr.FeatureSource):
    dtype, shape = torch.float32, (4,)

    def read(self, ids, *, num_threads=1, to=None):
        print("writing", flush=True)
        time.sleep(60)

    def content_digest(self):
        return "slow"

store = hr.FeatureStore(node={"x": Slow()})
data = dataclasses.replace(hr.open_dataset(sys.argv[2]), store=store)
data.partition(hr.Partition.hash(4, 2), sys.argv[1], overwrite=True, progress=False)
"""


def write(path: Path, **options: object) -> None:
    data().partition(OWNERS, path, progress=False, **options)


def hidden(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir() if one.name.startswith("."))


def start(path: Path) -> Process:
    """Start a process that is writing a folder."""
    small = path.parent.parent / f"{path.parent.name}-data"
    if not small.exists():
        hr.save_dataset(small, hr.Graph.from_coo([0, 1], [1, 0], num_nodes=4), progress=False)
    process = Process(_WRITE, path, small)
    while process.poll() is None and process.printed() != "writing\n":
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()
    return process


@pytest.mark.slow
def test_drafts_of_killed_runs_are_removed_and_those_in_use_stay(tmp_path):
    path = tmp_path / "my-shards"
    start(path).kill()
    (left,) = hidden(tmp_path)
    token, _ = left.rsplit(".", 1)[1].split("-")
    shutil.copytree(tmp_path / left, tmp_path / left.replace(token, f"{int(token, 16) ^ 1:08x}"))
    other = tmp_path / ".another-shards.0123abcd-0123456789ab"
    other.mkdir()
    with pytest.warns(UserWarning, match=rf"{path}: removed 2 unfinished drafts of ended runs, [1-9][0-9,]* bytes"):
        write(path)
    assert hidden(tmp_path) == [other.name]
    hr.open_dataset(path, rank=0)
    process = start(path)
    try:
        with pytest.raises(hr.InputError, match=r"expected nobody else to write .*my-shards, but another run is writ"):
            write(path, overwrite=True)
        assert len(hidden(tmp_path)) == 2, "the draft in use, and that of another folder"
    finally:
        process.kill()
    with pytest.warns(UserWarning, match="removed 1 unfinished drafts"):
        write(path, overwrite=True)
    assert hidden(tmp_path) == [other.name]


@pytest.mark.slow
def test_a_refused_run_clears_up_as_well(tmp_path):
    path = tmp_path / "parts"
    start(path).kill()
    path.mkdir()
    with pytest.warns(UserWarning, match="removed 1 unfinished"), pytest.raises(hr.InputError, match="or overwrite it"):
        write(path)
    assert not hidden(tmp_path)


@pytest.mark.parametrize("name", [".parts.0123abcd", ".parts.0123abcd-0123456789ab", ".parts.0123abcd.replaced"])
def test_drafts_that_may_be_in_use_elsewhere_are_told_of_and_stay(tmp_path, name):
    """Of another machine, of before a restart, or of a file system without locks."""
    (tmp_path / name).mkdir()
    with pytest.warns(UserWarning, match=rf"1 drafts are beside it \(.*{name}\) of other machines, .*; remove them if"):
        write(tmp_path / "parts")
    assert hidden(tmp_path) == [name]


@pytest.mark.parametrize("name", [".parts.txt", ".parts.0123abcd.npy", ".parts.0123ABCD", "parts.0123abcd", ".parts"])
def test_what_is_no_draft_is_nothing_to_tell(tmp_path, name):
    (tmp_path / name).mkdir()
    write(tmp_path / "parts")
    assert (tmp_path / name).is_dir()


@pytest.mark.slow
def test_files_and_links_that_are_named_like_drafts_stay(tmp_path):
    start(tmp_path / "parts").kill()
    (draft,) = hidden(tmp_path)
    boot = draft.rpartition("-")[2]
    shutil.rmtree(tmp_path / draft)
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (tmp_path / f".parts.0123abcd-{boot}").symlink_to(thesis)
    (tmp_path / f".parts.1123abcd-{boot}").touch()
    write(tmp_path / "parts")
    assert thesis.is_dir()
    assert len(hidden(tmp_path)) == 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("there", [False, True])
def test_a_full_disk_names_the_folder_and_what_was_needed(tmp_path, monkeypatch, number, there):
    path = tmp_path / "deep" / "parts"
    if there:
        write(path)
    synced = []

    def full(descriptor):
        synced.append(descriptor)
        if len(synced) > 5:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"expected room for \d[\d,]+ bytes, but the disk is full") as caught:
        write(path, overwrite=True)
    assert caught.value.errno == number
    assert caught.value.filename == str(path)
    assert not hidden(path.parent)
    assert path.exists() == there


def test_other_errors_of_the_system_name_the_folder(tmp_path, monkeypatch):
    def broken(descriptor):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match=r"^\[Errno 5\] input/output error: '.*/parts'$"):
        write(tmp_path / "parts")
    assert not list(tmp_path.iterdir())


_AT_ANY_MOMENT = """
import os, signal, sys, warnings
import torch, headrace as hr
from pathlib import Path

path = Path(sys.argv[1])
graph = hr.Graph.from_coo([0, 1], [1, 0])

def save(value, **options):
    store = hr.FeatureStore(node={"x": torch.full((2, 1), value)})
    hr.save_dataset(path, graph, store, items={"train": [0]}, overwrite=True, progress=False, **options)

save(0.0)
warnings.simplefilter("ignore")
events = {"open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.scandir", "shutil.rmtree", "os.fsync"}
left = None

def die_at(event, arguments):
    global left
    if left is not None and event in events:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(die_at)
moment, value, status, seen = 0, 0.0, None, set()
while status != 0:
    child = os.fork()
    if child == 0:
        left = moment
        save(value + 1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    rows = float(hr.open_dataset(path).store.node["x"].read(torch.tensor([0])).rows[0, 0])
    assert rows in (value, value + 1), (moment, rows, value)
    seen.add(rows - value)
    value, moment = rows, moment + 1
save(0.0)
assert seen == {0.0, 1.0} and moment > 20, (seen, moment)
assert os.listdir(path.parent) == [path.name], os.listdir(path.parent)
"""


@pytest.mark.slow
def test_a_run_killed_at_any_moment_leaves_the_old_data_set_or_the_new_one(tmp_path):
    process = Process(_AT_ANY_MOMENT, tmp_path / "data")
    assert process.wait(120) == 0, process.communicate()
