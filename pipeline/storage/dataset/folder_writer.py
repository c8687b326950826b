"""Arrays written to new files of a folder, with their descriptions."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from torch import Tensor
from torch import dtype as torch_dtype

from headrace.pipeline.storage.array_file import PIECE_BYTES, write_array
from headrace.pipeline.storage.dataset.manifest import ArrayFile
from headrace.pipeline.storage.rows_meta import as_utf8, name_of


class FolderWriter:
    """Writes arrays to new files of a folder."""

    def __init__(self, folder: Path, written: Callable[[int], object]) -> None:
        self.folder = folder
        self._written = written
        self._names: set[str] = set()

    def write(
        self, parts: Iterable[str], dtype: torch_dtype, shape: tuple[int, ...], pieces: Iterator[Tensor]
    ) -> ArrayFile:
        """Write an array whose name is made of some parts, and return its description."""
        path = self.path(parts)
        digest = hashlib.sha256()

        def count(content: memoryview) -> None:
            digest.update(content)
            self._written(content.nbytes)

        write_array(path, dtype, shape, pieces, header_written=digest.update, piece_written=count)
        return ArrayFile(path.name, name_of(dtype), tuple(map(int, shape)), digest.hexdigest())

    def path(self, parts: Iterable[str]) -> Path:
        """Return the file of an array whose name is made of some parts, and take its name."""
        file = ".".join(quote(as_utf8(part, "a name"), safe=",") for part in parts)
        if file.lower() in self._names or len(file) > 200:  # also where names ignore case, or are too long for a file
            file = f"array-{len(self._names)}"
        self._names.add(file.lower())
        return self.folder / f"{file}.npy"

    def tensor(self, parts: Iterable[str], tensor: Tensor) -> ArrayFile:
        """Write a tensor."""
        rows = max(1, PIECE_BYTES // max(1, tensor[:1].nbytes))
        pieces = (tensor[start : start + rows].contiguous() for start in range(0, len(tensor), rows))
        return self.write(parts, tensor.dtype, tuple(tensor.shape), pieces)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, as ``sha256sum`` prints it."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def num_bytes(array: ArrayFile) -> int:
    """Return the bytes of the elements of an array."""
    return math.prod(array.shape) * array.torch_dtype.itemsize
