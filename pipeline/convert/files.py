"""Files of a table: in natural order, opened without waiting, and as they are now."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from glob import glob, has_magic
from itertools import accumulate
from pathlib import Path

from headrace.ops import InputError
from headrace.ops.names import close_name
from headrace.pipeline.convert.table import Stamp
from headrace.pipeline.storage.opened_files import open_regular

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def files_of(paths: Paths, folder: str | os.PathLike[str] = "") -> list[Path]:
    """Return the files of a table, ``part_2`` before ``part_10``.

    Parameters
    ----------
    paths
        A file, a pattern, a folder whose files are all meant, or several of these, which keep their order. In a
        pattern ``*`` is any text in a name, and ``**`` any number of folders. The name of a file that is there is no
        pattern.
    folder
        What paths are below; none of its characters is part of a pattern.

    Raises
    ------
    InputError
        If there is no such file, it is no regular one or named twice, or a folder has folders in it.
    """
    named = [paths] if isinstance(paths, str | os.PathLike) else paths
    found = [file for one in named for file in _files_of_one(os.fspath(one), os.fspath(folder))]
    if not found:
        texts = ", ".join(os.path.join(folder, one) for one in named)  # noqa: PTH118 - as it was written
        raise InputError(f"convert: expected files, got {texts!r}, which names none; look at the path")
    for file in found:
        _check(file)
    counts = Counter(os.path.realpath(file) for file in found)
    twice = [file for file in found if counts[os.path.realpath(file)] > 1]
    if twice:
        raise InputError(
            f"convert: expected each file once in {', '.join(repr(os.fspath(one)) for one in named)}, got {twice[-1]} "
            "again; name the files otherwise"
        )
    return found


def natural_key(path: Path) -> list[str | int]:
    """Return a key that sorts names by the numbers in them."""
    parts = re.split(r"(\d+)", str(path))
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


def stamps_of(files: Sequence[Path]) -> tuple[Stamp, ...]:
    """Return the files as they are now.

    Raises
    ------
    InputError
        If one is gone.
    """
    found = []
    for file in files:
        try:
            status = file.stat()
        except OSError as cause:
            raise InputError(f"convert: {file} is gone while it is read ({cause.strerror}); convert again") from cause
        found.append((str(file), status.st_size, status.st_mtime_ns))
    return tuple(found)


def fault_of(cause: Exception) -> str:
    """Return what is wrong with a file of text, and what to do."""
    is_encoded = any(one in str(cause) for one in ("codec", "UTF8"))
    return f"{cause}; {'write the file as UTF-8' if is_encoded else 'correct the file'}"


class RowsOfFiles:
    """In which file a row of a table is, once that many rows of it are known."""

    def __init__(self, files: Sequence[Path], counts: Sequence[int] = ()) -> None:
        self._files = files
        self._starts = list(accumulate(counts, initial=0))

    def ended(self, place: int, num_rows: int) -> None:
        """Take note of the rows of a file that was read to its end."""
        if place == len(self._starts) - 1:
            self._starts.append(self._starts[-1] + num_rows)

    def where(self, row: int) -> str:
        """Return the file and row, rows of a file counted from 0."""
        path, before = self.place_of(row)
        return f"{path}, row {before}"

    def file_of(self, row: int) -> Path:
        """Return the file that a row is in."""
        return self.place_of(row)[0]

    def place_of(self, row: int) -> tuple[Path, int]:
        """Return the file that a row is in, and how many rows of it are before."""
        place = min(bisect_right(self._starts, row) - 1, len(self._files) - 1)
        return self._files[place], row - self._starts[place]


def _check(file: Path) -> None:
    try:
        open_regular(file).close()
    except OSError as cause:
        known = [one.name for one in file.parent.iterdir()] if file.parent.is_dir() else []
        near = close_name(file.name, known)
        raise InputError(
            f"convert: expected a table in {file}, but it cannot be read ({cause.strerror}); "
            + ("look at the path" if near is None else f"did you mean {near}?")
        ) from cause


def _files_of_one(text: str, folder: str) -> list[Path]:
    path = Path(folder, text)
    if path.is_dir():
        return _files_in(path, text.rstrip("/"))
    if not has_magic(text) or path.exists():
        return [path]
    names = glob(text, root_dir=folder or None, recursive=True)  # noqa: PTH207 - absolute patterns too
    found = [Path(folder, one) for one in names]
    if "**" in text:  # which descends into folders, also those that other programs keep there, such as _temporary
        above = len(Path(folder, text.split("**", maxsplit=1)[0] + "_").parts) - 1
        found = [one for one in found if not one.is_dir() and not any(part[0] == "_" for part in one.parts[above:])]
    return sorted(found, key=natural_key)


def _files_in(path: Path, text: str) -> list[Path]:
    """Return the files in a folder, but for those that other programs keep there, such as _SUCCESS."""
    entries = sorted((one for one in path.iterdir() if not one.name.startswith((".", "_"))), key=natural_key)
    files = [one for one in entries if one.is_file()]
    folders = [one.name for one in entries if one.is_dir()]
    if folders:
        ending = "".join(files[0].suffixes[-2:]) if files else ""
        advice = f", or {f'{text}/*{ending}'!r} for those in it alone" if files else ""
        raise InputError(
            f"convert: expected files alone in {path}, got the folders {', '.join(folders[:5])}; write "
            f"{f'{text}/**/*{ending}'!r} for the files at any depth{advice}"
        )
    return files
