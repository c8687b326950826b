"""The arrays of the data set, written one by one: each is a pass of its own, which a later run need not repeat."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.memory import rows_within
from headrace.pipeline.convert.raw_array import RawArray
from headrace.pipeline.convert.work_folder import WorkFolder
from headrace.pipeline.storage.array_file import PIECE_BYTES
from headrace.pipeline.storage.dataset.files import ArrayFile
from headrace.pipeline.storage.dataset.folder_writer import FolderWriter

#: Passes of the journal that have written an array.
_WRITTEN = "write "


class Output:
    """Writes arrays of a data set to a folder inside the work folder.

    Parameters
    ----------
    work
        The work folder.
    bar
        Makes a progress bar of a pass of some bytes.
    """

    def __init__(self, work: WorkFolder, bar: Callable[[str, int | None], Any]) -> None:
        self._work = work
        self._bar = bar
        self.folder = work.file("data")
        self.folder.mkdir(exist_ok=True)
        finished = {
            one["file"]
            for name, facts in work.done().items()
            if name.startswith(_WRITTEN)
            for one in facts.get("files", {"": facts}).values()
        }
        for path in self.folder.iterdir():
            if path.name not in finished:
                path.unlink()
        self._progress: Any = None
        self._writer = FolderWriter(self.folder, self._advance)

    def write(
        self,
        parts: Iterable[str],
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        pieces: Iterator[NDArray[Any]],
        counted: Counter[str] | None = None,
    ) -> ArrayFile:
        """Write an array of pieces, and return its description.

        Parameters
        ----------
        counted
            What the pieces count while they are made; of an array that is written already, what they counted then.
        """
        parts = list(parts)
        name = _WRITTEN + ".".join(parts)
        if self._work.is_done(name):
            self._writer.path(parts)

        def run() -> dict[str, Any]:
            of_torch = torch_dtype(dtype, ".".join(parts))
            with self._bar(name, int(np.prod(shape)) * dtype.itemsize) as progress:
                self._progress = progress
                tensors = (torch.from_numpy(np.array(one, dtype, order="C")) for one in pieces)
                written = asdict(self._writer.write(parts, of_torch, shape, tensors))
                return written if counted is None else {**written, "counted": dict(counted)}

        is_done = self._work.is_done(name)
        facts = self._work.once(name, run)
        if is_done and counted is not None:
            counted.update(facts["counted"])
        return _array_file(facts)

    def write_together(
        self,
        name: str,
        arrays: Mapping[str, tuple[Sequence[str], np.dtype[Any], tuple[int, ...]]],
        pieces: Callable[[], Iterator[tuple[str, NDArray[Any]]]],
        facts: Callable[[], dict[str, Any]],
    ) -> tuple[dict[str, ArrayFile], dict[str, Any]]:
        """Write several arrays at once.

        Parameters
        ----------
        name
            Of the pass.
        arrays
            By a key, the parts of the name of each, its dtype and its shape.
        pieces
            Yields keys and the next rows of their arrays.
        facts
            Returns what else is known behind the last piece, and is returned again by a run that goes on.
        """
        name = _WRITTEN + name

        def run() -> dict[str, Any]:
            total = sum(int(np.prod(shape)) * dtype.itemsize for _, dtype, shape in arrays.values())
            with self._bar(name, total) as self._progress, ExitStack() as stack:
                opened = {
                    key: stack.enter_context(self._writer.open(parts, torch_dtype(dtype, ".".join(parts)), shape))
                    for key, (parts, dtype, shape) in arrays.items()
                }
                for key, rows in pieces():
                    opened[key].append(torch.from_numpy(np.array(rows, arrays[key][1], order="C")))
            return {"files": {key: asdict(one.described()) for key, one in opened.items()}, "facts": facts()}

        if self._work.is_done(name):
            for parts, *_ in arrays.values():
                self._writer.path(parts)
        done = self._work.once(name, run)
        files = {key: _array_file(one) for key, one in done["files"].items()}
        return files, done["facts"]

    def raw(self, parts: Iterable[str], array: RawArray, num_rows: int) -> ArrayFile:
        """Write the rows of a file between passes."""
        rows = rows_within(PIECE_BYTES, array.row_bytes)
        return self.write(parts, array.dtype, (num_rows, *array.shape), array.pieces(num_rows, rows))

    def _advance(self, count: int) -> None:
        self._progress.update(count)

    def publish(self, draft: Path, arrays: Iterable[ArrayFile]) -> None:
        """Put the files into the folder that becomes the data set, and keep them here in case that fails."""
        for array in arrays:
            _link(self.folder / array.file, draft / array.file)


def _array_file(facts: Mapping[str, Any]) -> ArrayFile:
    return ArrayFile(facts["file"], facts["dtype"], tuple(facts["shape"]), facts["sha256"])


def _link(path: Path, other: Path) -> None:
    try:
        os.link(path, other)
    except OSError:  # a file system without links
        shutil.copyfile(path, other)


def torch_dtype(dtype: np.dtype[Any], what: str) -> torch.dtype:
    """Return the dtype of torch of an array.

    Raises
    ------
    InputError
        If torch has none.
    """
    try:
        return torch.from_numpy(np.empty(0, dtype)).dtype
    except TypeError as cause:
        raise InputError(f"convert: expected numbers that torch has for {what}, got {dtype}; convert them") from cause
