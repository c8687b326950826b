"""Folders that appear at once: complete and on the disk, or what was there before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import headrace as hr
from headrace.pipeline.data.new_folder import new_folder


@pytest.fixture
def there(tmp_path):
    """A folder that may be replaced."""
    path = tmp_path / "there"
    path.mkdir()
    (path / "old").write_text("old")
    return path


def names(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir())


def replace(path: Path, contents=os.listdir):
    with new_folder(path, overwrite=True, contents=contents, what="parts") as draft:
        (draft / "new").write_text("new")


def test_a_folder_is_replaced_whole(tmp_path, there):
    replace(there)
    assert names(there) == ["new"]
    assert names(tmp_path) == ["there"]


def test_what_was_there_returns_if_the_new_folder_cannot_be_moved(tmp_path, there, monkeypatch):
    """Where two folders cannot be swapped, the second of two renames fails: the first one is undone."""
    monkeypatch.setattr("headrace.pipeline.data.new_folder._exchange", lambda *_: False)
    rename = Path.rename
    moved = []

    def rename_but_no_draft(self, target):
        if Path(target).name == "there" and (self / "new").exists():
            moved.append(names(tmp_path))
            raise OSError("no such luck")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", rename_but_no_draft)
    with pytest.raises(OSError, match="no such luck"):
        replace(there)
    assert "there" not in moved[0], "the old folder was not out of the way, so there was nothing to undo"
    assert names(tmp_path) == ["there"]
    assert (there / "old").read_text() == "old"


def test_what_came_while_the_new_folder_was_written_is_not_replaced(tmp_path, there):
    """Whether a folder may be replaced is asked again right before."""
    with (
        pytest.raises(hr.InputError, match="but it holds something else"),
        new_folder(
            there, overwrite=True, contents=lambda path: {"old"} if (path / "old").exists() else None, what="parts"
        ),
    ):
        (there / "old").rename(there / "thesis")
    assert names(tmp_path) == ["there"]
    assert names(there) == ["thesis"]


def test_a_foreign_folder_that_came_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "late"
    with (
        pytest.raises(hr.InputError, match="but it holds something else"),
        new_folder(path, overwrite=True, contents=lambda path: None, what="parts"),
    ):
        path.mkdir()
        (path / "thesis").touch()
    assert names(tmp_path) == ["late"]
    assert names(path) == ["thesis"]
