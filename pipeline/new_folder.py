"""Folders that appear at once: written beside their place and renamed, so that a crash leaves nothing half done."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.ops.errors import InputError


@contextmanager
def new_folder(path: Path, *, overwrite: bool, replaceable: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield an empty folder that is at `path` once the block has ended without an error, and gone if it has not.

    Parameters
    ----------
    path
        Where the folder will be; missing parents are made.
    overwrite
        Whether to replace what is there.
    replaceable
        Tells whether a folder is of the kind that may be replaced.

    Raises
    ------
    InputError
        As of `check_is_free`.
    OSError
        If the folder cannot be made or moved.
    """
    path = path.resolve()
    check_is_free(path, overwrite=overwrite, replaceable=replaceable)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    draft.mkdir()
    try:
        yield draft
        if overwrite and path.exists():
            check_is_free(path, overwrite=True, replaceable=replaceable)  # it may have come while we were writing
            replaced = draft.with_name(f"{draft.name}.replaced")
            path.rename(replaced)
            try:
                draft.rename(path)
            except BaseException:
                replaced.rename(path)
                raise
            shutil.rmtree(replaced, ignore_errors=True)
        else:
            draft.rename(path)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def check_is_free(path: Path, *, overwrite: bool, replaceable: Callable[[Path], bool]) -> None:
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
            f"expected shards at {path} to overwrite, but it holds something else; name another folder, or remove it"
        )
