"""Conversions that a full disk stops, and that go on when there is room again."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def num_synced(convert: Callable[[Path], object], out: Path) -> int:
    """How many files and folders a conversion, which it makes, writes to the disk."""
    synced: list[int] = []
    fsync = os.fsync
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda number: synced.append(number) or fsync(number))
        convert(out)
    return len(synced)


def stop(convert: Callable[[Path], object], out: Path, number: int, error: int = errno.ENOSPC) -> OSError:
    """Let the conversion run into a full disk at one of the files that it writes; return its error."""
    left = [number]
    fsync = os.fsync

    def full(descriptor: int) -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise OSError(error, os.strerror(error))
        fsync(descriptor)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError) as caught:
        patch.setattr(os, "fsync", full)
        convert(out)
    assert caught.value.errno == error
    assert not out.exists()
    return caught.value


def stop_late(convert: Callable[[Path], object], out: Path) -> None:
    """Stop a conversion when all but the end is done, so that finished passes are kept beside `out`."""
    number = num_synced(convert, out)
    shutil.rmtree(out)
    stop(convert, out, number)
