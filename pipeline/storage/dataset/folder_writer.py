"""Arrays written to new files of a folder, with their descriptions."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from torch import Tensor
from torch import dtype as torch_dtype

from headrace.pipeline.storage.array_file import PIECE_BYTES, array_writer
from headrace.pipeline.storage.dataset.files import ArrayFile
from headrace.pipeline.storage.json_fields import as_utf8, name_of


@dataclass(frozen=True)
class OpenArray:
    """An array that is being written, by pieces that follow each other along its first dimension."""

    path: Path
    dtype: torch_dtype
    shape: tuple[int, ...]
    append: Callable[[Tensor], None]
    digest: Callable[[], str]

    def described(self) -> ArrayFile:
        """Return the description of the array, which is complete."""
        return ArrayFile(self.path.name, name_of(self.dtype), tuple(map(int, self.shape)), self.digest())


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
        with self.open(parts, dtype, shape) as array:
            for piece in pieces:
                array.append(piece)
        return array.described()

    @contextmanager
    def open(self, parts: Iterable[str], dtype: torch_dtype, shape: tuple[int, ...]) -> Iterator[OpenArray]:
        """Yield an array whose name is made of some parts, and which is complete when the block ends."""
        path, digest = self.path(parts), hashlib.sha256()

        def count(content: memoryview) -> None:
            digest.update(content)
            self._written(content.nbytes)

        with array_writer(path, dtype, shape, header_written=digest.update, piece_written=count) as append:
            yield OpenArray(path, dtype, shape, append, digest.hexdigest)

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
