"""Errors of the system while files are written: named after what is being written, with what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Errors of the system that say that there is no room for more, on the disk or for this user.
DISK_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}

#: By the number of an error of the system, what has happened and what to do.
FAULTS = {
    **dict.fromkeys(DISK_FULL, ("the disk is full", "make room")),
    errno.EFBIG: ("the file is larger than the system allows", "raise that limit (ulimit -f)"),
}


@contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """Name a file in errors of the system while it is written: those of writing to an open file name none."""
    try:
        yield
    except OSError as cause:
        if cause.errno is not None and cause.filename is None:
            cause.filename = str(path)
        raise


@contextmanager
def named_after(path: Path, draft: Path) -> Iterator[None]:
    """Name `path` in errors of the system about what is in its draft, which nobody finds afterwards.

    Raises
    ------
    OSError
        With what to do where that is known.
    """
    try:
        yield
    except OSError as cause:
        file = cause.filename
        if cause.errno not in FAULTS if file is None else not Path(os.fsdecode(file)).is_relative_to(draft):
            raise
        text = cause.strerror
        if cause.errno in FAULTS:
            what, remedy = FAULTS[cause.errno]
            text = f"{what}, and nothing is kept of what was being written; {remedy}, or name another place"
        raise OSError(cause.errno, text, os.fspath(path)) from cause
