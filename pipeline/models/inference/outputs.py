"""Where the rows that layers return are kept: in memory, or in files of which the last one is what remains."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.memory_limit import check_fits_memory
from headrace.pipeline.data.place import CPU, DISK
from headrace.pipeline.models.inference.trial import Returned
from headrace.pipeline.storage.array_file import read_array, write_array
from headrace.pipeline.storage.array_source import ArraySource
from headrace.pipeline.storage.draft_folder import draft_of, remove_abandoned


class Outputs(Protocol):
    """Keeps the rows of one layer after another; of two at a time, as one is read while the next is written."""

    def keep(self, pieces: Iterable[Tensor], num_rows: int, returned: Returned) -> ArraySource:
        """Return all rows, which come in pieces; those of the layer before last are gone then."""

    def finish(self, rows: ArraySource) -> Tensor:
        """Return the rows of the last layer where they are to remain."""


class InMemory:
    """Rows are tensors."""

    def keep(self, pieces: Iterable[Tensor], num_rows: int, returned: Returned) -> ArraySource:
        """Return the rows as they are in memory.

        Raises
        ------
        InputError
            If the machine has less memory than they take.
        """
        row = torch.empty(returned.shape, dtype=returned.dtype, device="meta")
        what = f"inference: got {num_rows:,} rows of a layer"
        check_fits_memory(num_rows * row.numel() * row.element_size(), what, 'keep them in a file: out="rows.npy"')
        kept = torch.empty((num_rows, *returned.shape), dtype=returned.dtype)
        at = 0
        for piece in pieces:
            kept[at : at + len(piece)] = piece
            at += len(piece)
        return ArraySource(kept, place=CPU)

    def finish(self, rows: ArraySource) -> Tensor:
        """Return the rows."""
        return rows.tensor


class InFiles:
    """Rows are files of a draft folder, written as a stream; the last one is moved to its name when all is done."""

    def __init__(self, path: Path, draft: Path, *, overwrite: bool) -> None:
        self._path, self._draft, self._overwrite = path, draft, overwrite
        self._written: list[Path] = []

    def keep(self, pieces: Iterable[Tensor], num_rows: int, returned: Returned) -> ArraySource:
        """Return the rows as a memory map, and remove what this layer has read."""
        file, shape = self._draft / f"layer_{len(self._written)}.npy", (num_rows, *returned.shape)
        write_array(file, returned.dtype, shape, pieces)
        for read in self._written[-1:]:
            read.unlink()
        self._written.append(file)
        return ArraySource(read_array(file, returned.dtype, shape, memory_map=True), place=DISK)

    def finish(self, rows: ArraySource) -> Tensor:
        """Give the file its name; return it as a memory map that may be written to, which does not change the file."""
        check_place(self._path, overwrite=self._overwrite)  # something may have come while we were writing
        self._written[-1].replace(self._path)
        if 0 in rows.shape:
            return torch.empty(rows.shape, dtype=rows.dtype)
        mapped: Tensor = torch.from_numpy(np.load(self._path, mmap_mode="c"))
        return mapped.view(rows.dtype)


@contextmanager
def outputs_of(out: Path | None, *, overwrite: bool) -> Iterator[Outputs]:
    """Yield where to keep rows. A file has its name once all is done; drafts are gone at the end, however it comes.

    Raises
    ------
    InputError
        As of `check_place`.
    """
    if out is None:
        yield InMemory()
        return
    check_place(out, overwrite=overwrite)
    out.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(out)
    with draft_of(out) as draft:
        yield InFiles(out, draft, overwrite=overwrite)
        shutil.rmtree(draft, ignore_errors=True)


def check_place(out: Path, *, overwrite: bool) -> None:
    """Refuse names that a file of rows cannot have.

    Raises
    ------
    InputError
        If it does not end in .npy, or something is there that may not be replaced.
    """
    if out.suffix != ".npy":
        raise InputError(f"inference: expected out to be the name of a .npy file, got {out}; name a file, rows.npy")
    if out.exists() and not (overwrite and out.is_file()):
        raise InputError(
            f"inference: expected nothing at {out}, but it exists; name another file, or overwrite it (overwrite=True)"
        )
