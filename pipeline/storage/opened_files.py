"""Files that others wrote: opened without waiting for ever, and named where they are of another format."""

from __future__ import annotations

import json
import os
import stat
import zipfile
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


MAGIC = b"\x93NUMPY"

#: Bytes that are looked at.
_START = 512

_NAMED = {
    b"\x89HDF": ("an HDF5 file", "read the array by h5py, and numpy.save it"),
    b"PAR1": ("a Parquet file", "numpy.save(path, pandas.read_parquet(file).to_numpy())"),
    b"ARROW1": ("an Arrow file", "numpy.save(path, pyarrow.feather.read_table(file).to_pandas().to_numpy())"),
    b"\x1f\x8b": ("a file that is compressed by gzip", "unpack it first"),
    b"BZh": ("a file that is compressed by bzip2", "unpack it first"),
    b"\x28\xb5\x2f\xfd": ("a file that is compressed by zstd", "unpack it first"),
    b"7z\xbc\xaf": ("an archive of 7-Zip", "unpack it first"),
    b"version https://git-lfs": ("a pointer of Git LFS in place of the file", "run git lfs pull"),
}


def what_came(path: Path, file: BinaryIO) -> str:
    """Return what a file holds that begins as no ``.npy`` file does, and what to do.

    Parameters
    ----------
    path
        Its name.
    file
        The file, read from its beginning.
    """
    file.seek(0)
    start = file.read(_START)
    for magic, (what, advice) in _NAMED.items():
        if start.startswith(magic):
            return f"{what}; {advice}"
    if not start:
        return "a damaged file, which is empty; write it or copy it once more"
    if start.startswith(b"PK"):
        return _of_zip(path, file)
    if start[:1] == b"\x80" and start[1:2] in b"\x02\x03\x04\x05":
        return (
            "a pickle, as of pickle.dump or an old torch.save, which is not opened, since that could run code; load it "
            "where you trust it, and numpy.save(path, tensor.numpy())"
        )
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") < 1 << 32:
        return "a safetensors file; numpy.save(path, safetensors.numpy.load_file(file)[name])"
    if _is_text(start):
        return f"text that begins with {start[:20].decode()!r}; numpy.save(path, numpy.loadtxt(file, delimiter=','))"
    return (
        "raw numbers without NumPy's header, or a damaged file; of raw numbers pass numpy.memmap(file, dtype, 'r', "
        "shape=shape), or numpy.save that; copy what is damaged once more"
    )


def _of_zip(path: Path, file: BinaryIO) -> str:
    """Return whose archive a ZIP file is."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return "a damaged ZIP archive; copy it once more"
    if any(name.endswith("data.pkl") for name in names):
        return "a file of torch.save; numpy.save(path, torch.load(file).numpy())"
    arrays = [name.removesuffix(".npy") for name in names if name.endswith(".npy")]
    if arrays:
        shown = ", ".join(map(repr, arrays[:5])) + (", ..." if len(arrays) > 5 else "")
        return (
            f"an .npz archive of {shown}, of which rows cannot be read where they are; write the array to a file of "
            f"its own: numpy.save({str(path.with_suffix('.npy'))!r}, numpy.load(file)[{arrays[0]!r}])"
        )
    return f"a ZIP archive of {', '.join(names[:5]) or 'nothing'}; unpack it first"


def _is_text(start: bytes) -> bool:
    try:
        text = start.decode("utf-8")
    except UnicodeDecodeError as cause:
        if cause.start < len(start) - 3:  # else a character is cut off by the end
            return False
        text = start[: cause.start].decode("utf-8")
    return all(character.isprintable() or character in "\r\n\t" for character in text)


def format_of(path: Path, name: str) -> dict[str, Any] | None:
    """Return the fields of a file of JSON whose field ``format`` is a name; None of any other file."""
    try:
        fields = parse_json(read_limited(path))
    except (InputError, OSError, ValueError):
        return None
    return fields if fields.get("format") == name else None
