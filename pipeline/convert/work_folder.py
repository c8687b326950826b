"""The folder of a conversion that runs: files between passes, and a journal of the passes that are finished.

The work folder of ``data`` is ``.data.converting`` beside it. A conversion that was killed leaves it, and the next
one with the same description goes on behind the last pass of the journal. Files that the journal does not name are
written again from their beginning.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headrace.ops import InputError
from headrace.pipeline.data.drafts import hold
from headrace.pipeline.data.file_errors import FAULTS, named_in_errors

JOURNAL = "journal"
_DRAFT = "journal.part"

Facts = dict[str, Any]


class WorkFolder:
    """Files between passes, and the facts that finished passes have found.

    Parameters
    ----------
    path
        The folder, which exists.
    fingerprint
        Of all that the result depends on; a folder of another one is emptied.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path = path
        self._journal = path / JOURNAL
        self._done: dict[str, Facts] = {}
        lines = self._lines()
        if not lines or lines[0] != {"fingerprint": fingerprint}:
            _empty(path)
            lines = [{"fingerprint": fingerprint}]
        self._done = {line["pass"]: line["facts"] for line in lines[1:]}
        # The last line of a killed run may be half a line.
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (path / _DRAFT).write_text(text)
        (path / _DRAFT).replace(self._journal)

    def file(self, name: str) -> Path:
        """Return the path of a file between passes."""
        return self.path / name

    def once(self, name: str, run: Callable[[], Facts]) -> Facts:
        """Run a pass unless it is finished, and return the facts that it found, which are JSON."""
        if name not in self._done:
            facts = run()
            with named_in_errors(self._journal), self._journal.open("a") as file:
                file.write(json.dumps({"pass": name, "facts": facts}) + "\n")
                file.flush()
                os.fsync(file.fileno())
            self._done[name] = facts
        return self._done[name]

    def is_done(self, name: str) -> bool:
        """Whether a pass is finished."""
        return name in self._done

    def done(self) -> dict[str, Facts]:
        """Return the facts of the passes that are finished."""
        return dict(self._done)

    def _lines(self) -> list[Any]:
        found: list[Any] = []
        try:
            for line in self._journal.read_text().splitlines(keepends=True):
                if not line.endswith("\n"):
                    break
                found.append(json.loads(line))
        except (OSError, ValueError):
            return []
        return found


def path_of_work(target: Path) -> Path:
    """Return the work folder of a target."""
    return target.with_name(f".{target.name}.converting")


@contextmanager
def with_remedy(target: Path) -> Iterator[None]:
    """Add to errors of the system, and to an interruption, what of a conversion is kept and how it goes on.

    Raises
    ------
    OSError
        With the file, where it is known.
    KeyboardInterrupt
        With the folder that is kept.
    """
    work = path_of_work(target)
    kept = f"finished passes are kept in {work}, and the same conversion goes on from there"
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"convert: {kept}") if work.exists() else KeyboardInterrupt from None
    except OSError as cause:
        if cause.errno is None or not work.exists():
            raise
        what, remedy = FAULTS.get(cause.errno, (cause.strerror, "mend this"))
        file = "" if cause.filename is None else f" ({cause.filename})"
        text = f"convert: {what}{file}; {remedy} and convert again: {kept}; or remove that folder"
        raise OSError(cause.errno, text, str(target)) from cause


@contextmanager
def work_folder(target: Path, fingerprint: str) -> Iterator[WorkFolder]:
    """Yield the work folder of a target, which no other run uses meanwhile.

    It is removed when the block ends and after an `InputError`, which will come again; it stays after other errors.

    Raises
    ------
    InputError
        If another run converts to the same target, or there is a folder of its name that no conversion has made.
    """
    path = path_of_work(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir()
    if not _is_ours(path):
        raise InputError(
            f"convert: expected {path} to be the work folder of a conversion, got a folder without its journal; move "
            "it away"
        )
    try:
        held = hold(path)
    except BlockingIOError as cause:
        raise InputError(
            f"convert: expected nobody else to convert to {target}, but another run does; wait for it, or end it"
        ) from cause
    try:
        yield WorkFolder(path, fingerprint)
        shutil.rmtree(path, ignore_errors=True)
    except InputError:
        shutil.rmtree(path, ignore_errors=True)
        raise
    finally:
        held.let_go()


def _is_ours(folder: Path) -> bool:
    """Whether a conversion has made a folder: before its journal begins there is nothing but the draft of it."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    if {entry.name for entry in folder.iterdir()} <= {JOURNAL, _DRAFT}:
        return True
    try:
        return "fingerprint" in json.loads(folder.joinpath(JOURNAL).read_text().splitlines()[0])
    except (OSError, ValueError, TypeError, IndexError):
        return False


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
