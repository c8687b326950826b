"""Files that others wrote, opened so that a FIFO does not wait for ever and a hostile text is an error with a name."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from headrace.ops.errors import InputError

#: More than any description of a folder has; a larger one is refused before it is read.
MOST_JSON_BYTES = 64 << 20

#: Digits of the largest integer of a file, and some to spare: Python parses integers in quadratic time.
MOST_DIGITS = 40

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises
    ------
    InputError
        If it is a FIFO, a device, a socket or a folder: opening or reading one could wait for ever.
    OSError
        If there is no such file, or it cannot be opened.
    """
    _check_kind(path, path.stat().st_mode)  # before it is opened: that alone does something to a device
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - Path.open takes no opener
    try:
        _check_kind(path, os.fstat(file.fileno()).st_mode)
    except BaseException:
        file.close()
        raise
    return file


def parse_json(data: bytes) -> dict[str, Any]:
    """Return the object that a JSON text holds.

    Raises
    ------
    ValueError
        If it is no JSON by the letter (``NaN`` and ``Infinity`` are none), is nested too deeply, or no object.
    """
    try:
        fields = json.loads(data.decode(), parse_constant=_no_constant, parse_int=_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError("it holds no object")  # noqa: TRY004 - of a file, not of a caller
    return fields


def read_limited(path: Path, most: int = MOST_JSON_BYTES) -> bytes:
    """Return the bytes of a regular file.

    Raises
    ------
    InputError
        As of `open_regular`.
    OSError
        As of `open_regular`.
    ValueError
        If there are more than `most`.
    """
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it is larger than {most} bytes")
    return data


def _check_kind(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise InputError(f"expected a regular file at {path}, got {kind}; put the file itself there, or a link to it")


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"it has an integer of {len(digits)} digits")
    return int(digits)
