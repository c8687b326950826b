"""Drafts of folders and files: locked while they are written, so that a later run removes what a killed one left.

A draft of ``shards`` is the folder ``.shards.TOKEN-BOOT`` beside it. TOKEN is random, BOOT names this start of this
machine. It is locked (``flock``) while it is written: the kernel lets go of the lock when the process ends, however it
does. It is made and locked under a lock of the folder that it is in. So, under that lock, a draft of this BOOT that can
be locked is abandoned for certain, and one that cannot is being written now. One of another BOOT may be in use on
another host of a shared file system, and one without a BOOT lies where there are no locks; both are only reported.
Where a file system cannot swap two folders, what a draft replaces is ``.shards.TOKEN-BOOT.replaced`` for a moment.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.ops.errors import InputError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data.file_errors import named_after

if sys.platform != "win32":
    import fcntl

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

#: Of any draft: the name of what it is one of, its BOOT, and whether it is what was replaced.
_DRAFT = re.compile(r"\.(.+)\.[0-9a-f]{8}(?:-([0-9a-f]{12}))?(\.replaced)?")

#: Seconds that a run waits until others have begun theirs, which takes milliseconds.
_LONGEST_BEGINNING = 10.0


@dataclass(frozen=True)
class Held:
    """A folder that no other process of this machine takes for abandoned; `lock` is None where there are no locks."""

    lock: int | None

    def let_go(self) -> None:
        """Unlock it."""
        if self.lock is not None:
            os.close(self.lock)


def hold(folder: Path) -> Held:
    """Lock a folder.

    Raises
    ------
    BlockingIOError
        If somebody else has locked it.
    OSError
        If it cannot be opened.
    """
    if sys.platform == "win32":
        return Held(None)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise
    except OSError:  # a file system without locks
        os.close(lock)
        return Held(None)
    return Held(lock)


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a new folder beside `path`, held while the block runs, and gone when it ends, unless it was moved.

    Drafts of `path` that ended runs left are removed first. Errors of the system about files of the draft name `path`.

    Raises
    ------
    InputError
        If another run is writing `path` now.
    OSError
        If the folder cannot be made, or from the block.

    Warns
    -----
    UserWarning
        With what was removed, and which drafts may be in use elsewhere.
    """
    with _alone_in(path.parent) as beginning:  # or two runs that begin together would not see each other
        remove_abandoned(path)
        draft = name_of_held(free_name(path), beginning)
        with named_after(path, draft):
            draft.mkdir()
        held = hold(draft)
    try:
        with named_after(path, draft):
            yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        held.let_go()


@contextmanager
def _alone_in(folder: Path) -> Iterator[Held]:
    """Let no other run begin in a folder while the block runs; without a lock, others may."""
    held, end = Held(None), time.monotonic() + _LONGEST_BEGINNING
    while True:
        try:
            held = hold(folder)
        except BlockingIOError:
            if time.monotonic() < end:
                time.sleep(0.005)
                continue
        except OSError:  # a folder that may be written to and not read
            pass
        break
    try:
        yield held
    finally:
        held.let_go()


def free_name(path: Path) -> Path:
    """Return a hidden name beside `path` that nobody has."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def name_of_held(draft: Path, held: Held) -> Path:
    """Return the name by which a later run can tell whether a folder is still held; the same one where none can."""
    boot = _boot()
    return draft.with_name(f"{draft.name}-{boot}") if boot and held.lock is not None else draft


def being_written(path: Path) -> InputError:
    """Return the error for a place that another run writes now."""
    return InputError(
        f"expected nobody else to write {path}, but another run is writing it now; wait until it has ended, or name "
        "another place"
    )


def is_abandoned(folder: Path) -> bool:
    """Whether a folder is a draft, of any folder, whose run has ended for certain.

    Raises
    ------
    InputError
        If its run goes on.
    """
    match = _DRAFT.fullmatch(folder.name)
    if match is None or not match[2] or match[2] != _boot():
        return False
    try:
        with _alone_in(folder.parent):  # it may have its name, and no lock yet
            held = hold(folder)
    except BlockingIOError as cause:
        raise being_written(folder.with_name(match[1])) from cause
    except OSError:
        return False
    held.let_go()
    return held.lock is not None


def remove_abandoned(path: Path) -> None:
    """Remove the drafts of `path` that ended runs left, put back what one of them had moved away, and say so.

    Raises
    ------
    InputError
        If a run that goes on writes `path`.

    Warns
    -----
    UserWarning
        With what was done, and which drafts may be in use elsewhere.
    """
    removed, num_bytes, unclear = [], 0, []
    for folder, boot, replaced in _drafts(path):
        if not boot or boot != _boot():
            unclear.append(folder)
            continue
        with suppress(FileNotFoundError):  # gone by now
            try:
                held = hold(folder)
            except BlockingIOError as cause:
                raise being_written(path) from cause
            try:
                if held.lock is None:
                    unclear.append(folder)
                elif replaced and not path.exists():
                    folder.rename(path)
                    _say(f"{path}: put back what was there, as a run ended between moving it away and replacing it")
                else:
                    num_bytes += _size(folder)
                    shutil.rmtree(folder)
                    removed.append(folder.name)
            finally:
                held.let_go()
    if removed:
        _say(
            f"{path}: removed {len(removed)} unfinished drafts of ended runs, {num_bytes:,} bytes, from {path.parent}: "
            f"{', '.join(removed)}"
        )
    if unclear:
        _say(
            f"{path}: {len(unclear)} drafts are beside it ({', '.join(map(str, unclear))}) of other machines, earlier "
            "starts of this one, or a file system without locks; remove them if nobody is writing them"
        )


def _drafts(path: Path) -> Iterator[tuple[Path, str, bool]]:
    """Yield the drafts of a folder, by name, with their BOOT and whether they are what was replaced."""
    with suppress(OSError), os.scandir(path.parent) as entries:  # no such folder yet, or not ours to look into
        for entry in sorted(entries, key=lambda one: one.name):
            match = _DRAFT.fullmatch(entry.name)
            if match and match[1] == path.name and entry.is_dir(follow_symlinks=False):
                yield Path(entry.path), match[2] or "", match[3] is not None


def _boot() -> str:
    """Return what differs between starts of machines, 12 hexadecimal digits; empty where the system does not say."""
    try:
        digits = _BOOT_ID.read_text(encoding="ascii").strip().replace("-", "")
    except (OSError, ValueError):
        return ""
    return digits[-12:] if re.fullmatch(r"[0-9a-f]{32}", digits) else ""


def _size(folder: Path) -> int:
    return sum(
        (Path(above) / name).lstat().st_size for above, _, names in os.walk(folder, followlinks=False) for name in names
    )


def _say(text: str) -> None:
    warn_user(text)
