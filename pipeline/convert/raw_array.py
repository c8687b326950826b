"""Rows in a file without a header, between two passes: written at the end, read in pieces."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from headrace.ops import InputError
from headrace.pipeline.data.file_errors import named_in_errors


@dataclass(frozen=True)
class RawArray:
    """Rows of one dtype and shape in a file of their own.

    They are read into memory rather than mapped: pages of mapped files count as memory of the process.
    """

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()

    @property
    def row_bytes(self) -> int:
        """The bytes of a row."""
        return self.dtype.itemsize * math.prod(self.shape)

    def pieces(self, num_rows: int, at_a_time: int) -> Iterator[NDArray[Any]]:
        """Yield the rows, piece by piece.

        Raises
        ------
        InputError
            If there are fewer than `num_rows`, as others have written to the file.
        """
        for start in range(0, num_rows, at_a_time):
            count = min(at_a_time, num_rows - start)
            rows = np.fromfile(self.path, self.dtype, count * math.prod(self.shape), offset=start * self.row_bytes)
            if rows.size != count * math.prod(self.shape):
                raise InputError(
                    f"convert: {self.path} was cut short by another program; remove its folder, and start again"
                )
            yield rows.reshape(count, *self.shape)

    def writer(self) -> RawWriter:
        """Begin the file anew."""
        return RawWriter(self)


class RawWriter:
    """Appends rows to the file of a `RawArray`; a context manager, which ends with the rows on the disk."""

    def __init__(self, array: RawArray) -> None:
        self._array = array
        self._file: BinaryIO = array.path.open("wb")
        self.num_rows = 0

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows behind the others."""
        taken = np.ascontiguousarray(rows, dtype=self._array.dtype)
        with named_in_errors(self._array.path):
            self._file.write(taken.data)
        self.num_rows += len(taken)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *rest: object) -> None:
        try:
            if error is None:
                with named_in_errors(self._array.path):
                    self._file.flush()
                    os.fsync(self._file.fileno())
        finally:
            self._file.close()
