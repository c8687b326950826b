"""Arrays in files that are mapped: processes map the file again, and copy nothing."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class MappedFile(NamedTuple):
    """Where the elements of an array stand in a file, one after the other.

    Parameters
    ----------
    path
        Of the file.
    offset
        The byte at which the array begins.
    shape, dtype
        Of the array.
    mode
        "r" for reading alone, "r+" for writing, too.
    """

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str
    mode: str

    def open(self) -> NDArray[Any]:
        """Map the file in this process."""
        mode: Any = self.mode
        return np.memmap(self.path, self.dtype, mode, self.offset, self.shape)

    def last_change(self) -> tuple[int, int] | None:
        """Return the bytes and the time of the last change of the file in nanoseconds; None if it has gone."""
        try:
            status = Path(self.path).stat()
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns


def mapped_file(array: object) -> MappedFile | None:
    """Return where an array is in a file; None if it is no memory map, a private one, or in pieces."""
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or array.size == 0:
        return None
    whole: Any = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    # Views of a map say the offset of the map, so it is counted from there.
    if not isinstance(whole, np.memmap) or not isinstance(whole.base, mmap.mmap) or whole.filename is None:
        return None
    if whole.mode not in ("r", "r+", "w+"):
        return None  # what is written to a private map is in no file
    offset = whole.offset + array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    mode = "r+" if array.flags.writeable else "r"
    return MappedFile(str(whole.filename), offset, array.shape, array.dtype.str, mode)
