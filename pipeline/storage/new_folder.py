"""Drafts of folders: locked while they are written, so that a later run can tell an abandoned one and remove it.

A draft of ``shards`` is ``.shards.TOKEN-BOOT`` beside it, and what it replaces is ``.shards.TOKEN-BOOT.replaced``
for a moment. TOKEN is random, BOOT names this start of this machine. The folder itself is locked (``flock``) before it
gets that name: the kernel lets go of the lock when the process ends, however it does. So a draft of this BOOT that can
be locked is abandoned for certain. One of another BOOT may be in use on another host of a shared file system, and one
without a BOOT lies where there are no locks; both are only reported.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.ops.errors import InputError
from headrace.ops.warn_user import warn_user

if sys.platform != "win32":
    import fcntl

#: Errors of the system that say that there is no room for more, on the disk or for this user.
DISK_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


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
    """Yield a new folder beside `path`, held while the block runs, and gone after an error."""
    draft = free_name(path)
    draft.mkdir()
    held = Held(None)
    try:
        held = hold(draft)
        draft = draft.rename(name_of_held(draft, held))
        yield draft
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    finally:
        held.let_go()


def free_name(path: Path) -> Path:
    """Return a hidden name beside `path` that nobody has."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def name_of_held(draft: Path, held: Held) -> Path:
    """Return the name by which a later run can tell whether a folder is still held; the same one where none can."""
    boot = _boot()
    return draft.with_name(f"{draft.name}-{boot}") if boot and held.lock is not None else draft


def remove_abandoned(path: Path) -> None:
    """Remove the drafts of `path` that ended processes left, put back what one of them had moved away, and say so.

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
        with suppress(OSError):  # in use, or gone by now
            held = hold(folder)
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
    pattern = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{8}(?:-([0-9a-f]{12}))?(\.replaced)?")
    with suppress(OSError), os.scandir(path.parent) as entries:  # no such folder yet, or not ours to look into
        for entry in sorted(entries, key=lambda one: one.name):
            match = pattern.fullmatch(entry.name)
            if match and entry.is_dir(follow_symlinks=False):
                yield Path(entry.path), match[1] or "", match[2] is not None


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


@contextmanager
def new_folder(
    path: Path, *, overwrite: bool, replaceable: Callable[[Path], bool], what: str = "shards"
) -> Iterator[Path]:
    """Yield an empty folder that is at `path` once the block has ended without an error, and gone if it has not.

    Drafts of the same folder that killed runs left are removed first, with a warning; see
    `headrace.pipeline.storage.new_folder` for which those are.

    Parameters
    ----------
    path
        Where the folder will be; missing parents are made.
    overwrite
        Whether to replace what is there.
    replaceable
        Returns whether a folder is of the kind that may be replaced.
    what
        What such a folder holds, in messages.

    Raises
    ------
    InputError
        As of `check_is_free`, for links that lead back to themselves, and if another run replaces the folder now.
    OSError
        If the folder cannot be made or moved.
    """
    path = _resolved(path)
    remove_abandoned(path)
    check_is_free(path, overwrite=overwrite, replaceable=replaceable, what=what)
    path.parent.mkdir(parents=True, exist_ok=True)
    with draft_of(path) as draft:
        yield draft
        if not (overwrite and path.exists()):
            draft.rename(path)
            return
        # It may have come while we were writing.
        check_is_free(path, overwrite=True, replaceable=replaceable, what=what)
        try:
            held = hold(path)  # or a run that clears up would take it for abandoned once it is out of the way
        except BlockingIOError as cause:
            raise InputError(
                f"expected nobody else to write {path}, but another run is replacing it now; start this one again"
            ) from cause
        try:
            aside = name_of_held(free_name(path), held)
            replaced = aside.with_name(f"{aside.name}.replaced")
            path.rename(replaced)
            try:
                draft.rename(path)
            except BaseException:
                replaced.rename(path)
                raise
            shutil.rmtree(replaced, ignore_errors=True)
        finally:
            held.let_go()


def check_is_free(path: Path, *, overwrite: bool, replaceable: Callable[[Path], bool], what: str = "shards") -> None:
    """Refuse a place where something is that may not be replaced.

    Raises
    ------
    InputError
        If something is at `path` and `overwrite` is off, or it is not `replaceable`.
    """
    if not path.exists():
        return
    if not overwrite:
        raise InputError(
            f"expected nothing at {path}, but it exists; name another folder, or overwrite it (overwrite=True, "
            "--overwrite)"
        )
    if not replaceable(path):
        raise InputError(
            f"expected {what} at {path} to overwrite, but it holds something else; name another folder, or remove it"
        )


def _resolved(path: Path) -> Path:
    """Return the place that a path leads to."""
    try:
        resolved = path.resolve()
        resolved.exists()
        looped = any(one.is_symlink() for one in (resolved, *resolved.parents))  # which some Pythons do not raise
    except (OSError, RuntimeError) as cause:  # a RuntimeError before Python 3.13
        raise InputError(f"expected a folder to make, but {path} leads nowhere ({cause}); name another one") from cause
    if looped:
        raise InputError(f"expected a folder to make, but {path} is a link that leads back to itself; name another one")
    return resolved
