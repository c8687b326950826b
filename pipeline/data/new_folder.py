"""Folders and files that appear at once: complete and on the disk, or what was there before, untouched."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from headrace.ops.errors import HeadraceError, InputError
from headrace.pipeline.data.drafts import being_written, draft_of, free_name, hold, is_abandoned, name_of_held
from headrace.pipeline.data.file_errors import check_path
from headrace.pipeline.data.written_file import written_file

#: Returns what headrace wrote to a folder, by the paths of files, and of folders that may be empty, in it; None of a
#: folder of another kind.
Contents = Callable[[Path], Collection[str] | None]

#: Names that a refusal lists.
_MOST_NAMED = 5

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextmanager
def new_folder(path: Path, *, overwrite: bool, contents: Contents, what: str) -> Iterator[Path]:
    """Yield an empty folder that is at `path` once the block has ended without an error, and gone if it has not.

    Drafts of the same folder that killed runs left are removed first, with a warning; see
    `headrace.pipeline.data.drafts` for which those are.

    Parameters
    ----------
    path
        Where the folder will be; missing parents are made.
    overwrite
        Whether to replace what is there.
    contents
        Returns the files that headrace wrote to a folder of the kind that may be replaced.
    what
        What such a folder holds, in messages.

    Raises
    ------
    InputError
        As of `check_is_free`, for links that lead back to themselves, and if another run writes the folder now.
    OSError
        If the folder cannot be made or moved, or from the block.
    """
    path = _resolved(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with draft_of(path) as draft:
        check_is_free(path, overwrite=overwrite, contents=contents, what=what)
        yield draft
        # Something may have come while we were writing.
        check_is_free(path, overwrite=overwrite, contents=contents, what=what)
        if path.exists():
            _replace(path, draft)
            return
        try:
            draft.rename(path)
        except OSError as cause:
            if path.exists():  # in the meantime, as where there are no locks
                raise being_written(path) from cause
            raise


def _replace(path: Path, draft: Path) -> None:
    """Put a draft in the place of a folder, which is removed."""
    try:
        held = hold(path)  # or a run that clears up would take it for abandoned once it is out of the way
    except BlockingIOError as cause:
        raise being_written(path) from cause
    try:
        if _exchange(draft, path):
            replaced = draft
        else:
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


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders at once, and return whether that was done: not every system and file system can."""
    rename = _renameat2()
    return rename is not None and not rename(
        _AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE
    )


@cache
def _renameat2() -> Any:
    """Return the function of the C library, or None where it has none."""
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None), "renameat2", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function


def check_is_free(path: Path, *, overwrite: bool, contents: Contents, what: str) -> None:
    """Refuse a place where something is that may not be replaced.

    Raises
    ------
    InputError
        If something is at `path` and `overwrite` is off, it is of another kind, it has files that headrace did not
        write, or another run writes into it.
    """
    if not path.exists():
        return
    if not overwrite:
        raise InputError(
            f"expected nothing at {path}, but it exists; name another folder, or overwrite it (overwrite=True, "
            "--overwrite)"
        )
    written = contents(path)
    if written is None:
        raise InputError(
            f"expected {what} at {path} to overwrite, but it holds something else; name another folder, or remove it"
        )
    others = _others(path, written)
    if others:
        shown = ", ".join(others[:_MOST_NAMED]) + (
            f" and {len(others) - _MOST_NAMED} more" * (len(others) > _MOST_NAMED)
        )
        raise InputError(
            f"expected {what} at {path} to overwrite, and nothing else, got also {shown}, which headrace did not "
            "write; move that elsewhere, or name another folder"
        )


def _others(folder: Path, written: Collection[str]) -> list[str]:
    """Return what a folder has beside the files that headrace wrote and drafts of ended runs, sorted."""
    files = {str(Path(one)) for one in written}
    folders = {str(above) for one in files for above in Path(one).parents}
    found = []

    def refuse(error: OSError) -> None:
        raise InputError(f"expected to look through {folder} before it is overwritten, but {error}") from error

    for at, inside, names in os.walk(folder, onerror=refuse):
        here = Path(at).relative_to(folder)
        found += [str(here / name) for name in names if str(here / name) not in files and not _is_of_the_system(name)]
        for name in list(inside):
            if str(here / name) in folders | files and not (Path(at) / name).is_symlink():
                continue
            inside.remove(name)
            if not is_abandoned(Path(at) / name):
                found.append(f"{here / name}/")
    return sorted(found)


def _is_of_the_system(name: str) -> bool:
    """Whether a file is one that systems leave in folders that were looked at or are on a server."""
    return name in (".DS_Store", "Thumbs.db", "desktop.ini") or name.startswith(".nfs")


@contextmanager
def new_file(path: Path, function: str, *, overwrite: bool) -> Iterator[Path]:
    """Yield the name of a file to write, which is at `path` once the block has ended without an error.

    Whatever else is written beside that file is gone then.

    Parameters
    ----------
    path
        Where the file will be.
    function
        Which writes it, for messages.
    overwrite
        Whether a file may be there.

    Raises
    ------
    InputError
        Before the block, and once more after it: for a folder that does not exist, for what is no file, for a file
        without `overwrite`, and if another run writes it now.
    OSError
        From the block, and if the file cannot be moved; with `path` for files of the draft.
    """
    path = check_file(path, function, InputError, overwrite=overwrite)
    with draft_of(path) as draft:
        file = draft / path.name
        yield file
        check_file(path, function, InputError, overwrite=overwrite)
        file.replace(path)


def write_file(path: Path, function: str, content: bytes | memoryview) -> None:
    """Write a file at once, in the place of one that may be there.

    Raises
    ------
    InputError
        As of `new_file`.
    OSError
        With `path`, if it cannot be written; what was there before stays.
    """
    with new_file(path, function, overwrite=True) as file, written_file(file) as write:
        write(content)


def free_bytes(path: Path) -> int:
    """Return how many bytes are free on the disk that a path, of something that may not be there yet, is on."""
    above = next(one for one in path.absolute().parents if one.exists())
    return shutil.disk_usage(above).free


def check_file(path: Path, function: str, error: type[HeadraceError], *, overwrite: bool) -> Path:
    """Return where a file is to be written, behind links.

    Raises
    ------
    error
        If there is no such folder, something else than a file is there, or a file without `overwrite`.
    """
    check_path(path, f"{function}: path", error)
    with suppress(OSError, RuntimeError):  # of a link that leads back to itself, which is no file
        path = path.resolve()
    if not path.parent.is_dir():
        raise error(f"{function}: expected a folder for {path.name}, got {path.parent}, which is none; make it first")
    if not os.path.lexists(path):
        return path
    if not path.is_file():
        raise error(f"{function}: expected a file to replace at {path}, but it exists and is none; name another file")
    if not overwrite:
        raise error(
            f"{function}: expected nothing at {path}, but it exists; name another file, or overwrite it "
            "(overwrite=True)"
        )
    return path


def _resolved(path: Path) -> Path:
    """Return the place that a path leads to."""
    check_path(path, "path", InputError)
    try:
        resolved = path.resolve()
        resolved.exists()
        looped = any(one.is_symlink() for one in (resolved, *resolved.parents))  # which some Pythons do not raise
    except (OSError, RuntimeError) as cause:  # a RuntimeError before Python 3.13
        raise InputError(f"expected a folder to make, but {path} leads nowhere ({cause}); name another one") from cause
    if looped:
        raise InputError(f"expected a folder to make, but {path} is a link that leads back to itself; name another one")
    return resolved
