"""Where the rows that layers return are kept: in memory, or in files of which those of the last layer remain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.memory_limit import check_fits_memory
from headrace.ops.names import Named
from headrace.ops.text import as_file_name
from headrace.pipeline.data import CPU, DISK, as_cpu_tensor
from headrace.pipeline.data.new_folder import new_file, new_folder
from headrace.pipeline.models.inference.rows import Kind
from headrace.pipeline.models.inference.trial import Returned
from headrace.pipeline.storage.array_file import read_array, write_array
from headrace.pipeline.storage.array_source import ArraySource


class Outputs(Protocol):
    """Keeps the rows of one layer after another; of two at a time, as one is read while the next is written."""

    def keep(self, kind: Kind, pieces: Iterable[Tensor], num_rows: int, returned: Returned) -> ArraySource:
        """Return all rows of a node type, which come in pieces."""

    def end_layer(self) -> None:
        """Let go of the rows of the layer before: those of this one are all there."""

    def result(self, rows: Mapping[Kind, ArraySource]) -> dict[Kind, Tensor]:
        """Return the rows of the last layer from where they remain, once outputs are closed."""


class InMemory:
    """Rows are tensors."""

    def keep(self, kind: Kind, pieces: Iterable[Tensor], num_rows: int, returned: Returned) -> ArraySource:
        """Return the rows as they are in memory.

        Raises
        ------
        InputError
            If the machine has less memory than they take.
        """
        row = torch.empty(returned.shape, dtype=returned.dtype, device="meta")
        what = f"inference: got {num_rows:,} rows of a layer"
        advice = 'keep them in a file: out="rows.npy"' if kind is None else 'keep them in files: out="rows"'
        check_fits_memory(num_rows * row.numel() * row.element_size(), what, advice)
        kept = torch.empty((num_rows, *returned.shape), dtype=returned.dtype, device="cpu")
        at = 0
        for piece in pieces:
            kept[at : at + len(piece)] = piece
            at += len(piece)
        return ArraySource(kept, place=CPU)

    def end_layer(self) -> None:
        """Nothing: whoever reads rows has them."""

    def result(self, rows: Mapping[Kind, ArraySource]) -> dict[Kind, Tensor]:
        """Return the rows."""
        return Named("inference", {kind: source.tensor for kind, source in rows.items()})


class InFiles:
    """Rows are files of a draft folder, written as a stream, which have the names of what remains in the end.

    Parameters
    ----------
    place
        What remains: a file, or a folder with one for each node type.
    draft
        Where they are until then.
    """

    def __init__(self, place: Path, draft: Path) -> None:
        self._place, self._draft = place, draft
        self._layer = 0
        self._before: dict[Kind, Path] = {}
        self._written: dict[Kind, Path] = {}

    def keep(self, kind: Kind, pieces: Iterable[Tensor], num_rows: int, returned: Returned) -> ArraySource:
        """Return the rows as a memory map."""
        # "@" is in no file that is named after a type.
        file, shape = self._draft / f"layer_{self._layer}@{len(self._written)}.npy", (num_rows, *returned.shape)
        write_array(file, returned.dtype, shape, pieces)
        self._written[kind] = file
        return ArraySource(read_array(file, returned.dtype, shape, memory_map=True), place=DISK)

    def end_layer(self) -> None:
        """Remove the files that this layer has read."""
        for file in self._before.values():
            file.unlink()
        self._before, self._written = self._written, {}
        self._layer += 1

    def move(self, place: Path) -> None:
        """Give the files of the last layer their names."""
        for kind, file in self._before.items():
            file.replace(file_of(place, kind))

    def result(self, rows: Mapping[Kind, ArraySource]) -> dict[Kind, Tensor]:
        """Return memory maps of the files, that may be written to, which does not change the files."""
        files = {kind: _mapped(file_of(self._place, kind), source) for kind, source in rows.items()}
        return Named("inference", files)


@contextmanager
def outputs_of(out: Path | None, *, types: Sequence[Kind] | None, overwrite: bool) -> Iterator[Outputs]:
    """Yield where to keep rows. What remains has its name once all is done; drafts are gone then, however it ends.

    Raises
    ------
    InputError
        If what remains cannot be there: a file that ends in .npy, or where there are types a folder, that takes the
        place of nothing, or with `overwrite` of another such, of rows of these types alone.
    """
    if out is None:
        yield InMemory()
    elif types is not None:
        if out.suffix == ".npy":
            raise InputError(
                f"inference: expected out to be a folder for a file of each node type, got {out}; name a folder, rows"
            )
        names = {file_of(out, kind).name for kind in types}

        def contents(folder: Path) -> set[str] | None:
            return names if folder.is_dir() else None

        if not out.parent.is_dir():
            raise InputError(
                f"inference: expected a folder for {out.name}, got {out.parent}, which is none; make it first"
            )
        with new_folder(out, overwrite=overwrite, contents=contents, what="rows of inference") as draft:
            files = InFiles(out, draft)
            yield files
            files.move(draft)
    else:
        if out.suffix != ".npy":
            raise InputError(f"inference: expected out to be the name of a .npy file, got {out}; name a file, rows.npy")
        with new_file(out, "inference", overwrite=overwrite) as file:
            files = InFiles(out, file.parent)
            yield files
            files.move(file)


def file_of(place: Path, kind: Kind) -> Path:
    """Return the file of a node type, whatever characters its name has; without types it is the place itself."""
    return place if kind is None else place / f"{as_file_name(str(kind))}.npy"


def _mapped(file: Path, source: ArraySource) -> Tensor:
    if 0 in source.shape:
        return torch.empty(source.shape, dtype=source.dtype, device="cpu")
    return as_cpu_tensor(np.load(file, mmap_mode="c"), str(file))
