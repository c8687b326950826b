"""Folders that appear at once: written beside their place and renamed, so that a crash leaves nothing half done."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.ops.errors import InputError
from headrace.pipeline.storage.draft_folder import draft_of, free_name, hold, name_of_held, remove_abandoned


@contextmanager
def new_folder(
    path: Path, *, overwrite: bool, replaceable: Callable[[Path], bool], what: str = "shards"
) -> Iterator[Path]:
    """Yield an empty folder that is at `path` once the block has ended without an error, and gone if it has not.

    Drafts of the same folder that killed runs left are removed first, with a warning; see
    `headrace.pipeline.storage.draft_folder` for which those are.

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
        looped = resolved.is_symlink()
    except (OSError, RuntimeError) as cause:  # a RuntimeError before Python 3.13
        raise InputError(f"expected a folder to make, but {path} leads nowhere ({cause}); name another one") from cause
    if looped:
        raise InputError(f"expected a folder to make, but {path} is a link that leads back to itself; name another one")
    return resolved
