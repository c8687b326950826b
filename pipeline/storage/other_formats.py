"""What a file is that is no ``.npy`` file, by how it begins, and how its array becomes one."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import BinaryIO

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
