"""Compiled kernels kept on disk, where CuPy keeps its own: compiling them takes seconds."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR


def kept(key: Sequence[str], make: Callable[[], bytes]) -> bytes:
    """Return what was made for a key, by this process or by an earlier one; where nothing can be written, make it."""
    folder = _folder()
    if folder is None:
        return make()
    path = folder / f"headrace-{hashlib.sha256(repr(tuple(key)).encode()).hexdigest()}"
    with suppress(OSError):
        found = path.read_bytes()
        if _digest(found[_DIGEST_BYTES:]) == found[:_DIGEST_BYTES]:  # a machine may have stopped while it was written
            return found[_DIGEST_BYTES:]
    made = make()
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(_digest(made) + made)
        Path(file.name).replace(path)  # other processes read all of it or none
    return made


def _folder() -> Path | None:
    """Return the folder of compiled kernels; None where the only one there could be is somebody else's."""
    try:
        return Path(os.environ.get("CUPY_CACHE_DIR") or "~/.cupy/kernel_cache").expanduser()
    except RuntimeError:  # the user has neither HOME nor an entry among the users, as in containers
        folder = Path(tempfile.gettempdir()) / f"headrace-kernels-{os.getuid()}"
    with suppress(OSError):
        status = folder.lstat()
        if status.st_uid != os.getuid() or not S_ISDIR(status.st_mode) or status.st_mode & 0o022:
            return None  # code that others could write is not loaded
    return folder


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


_DIGEST_BYTES = len(_digest(b""))
