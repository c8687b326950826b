"""Tensors of an object that ``torch.save`` has written, read without running code of the file.

Such a file is an archive: a pickle that says which tensors the object has, and their bytes. Of the pickle only names,
numbers and tensors are taken; objects become `Record`, whatever their class is, and any function but the one that makes
a tensor is refused before it is called.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError

_DTYPES = {
    "Bool": "?",
    "Byte": "u1",
    "Char": "i1",
    "Short": "<i2",
    "Int": "<i4",
    "Long": "<i8",
    "Half": "<f2",
    "Float": "<f4",
    "Double": "<f8",
}
_STORAGES = {f"{name}Storage": np.dtype(dtype) for name, dtype in _DTYPES.items()}

#: What says which tensors there are takes some hundred bytes for each.
_MOST_BYTES = 1 << 20
_MOST_DIMENSIONS = 8

#: The part of a file's own head before its name; the lengths of the name and of what follows it are at its end.
_LOCAL_HEAD = 30

#: What archives and pickles raise that are none.
_DAMAGED = (
    zipfile.BadZipFile,
    pickle.UnpicklingError,
    OSError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    RecursionError,
    MemoryError,
)


class Record:
    """An object of a class that is not imported: its state alone."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Storage(NamedTuple):
    dtype: Any
    key: Any
    size: Any


class _Tensor(NamedTuple):
    """A tensor as the file describes it; nothing of it is looked at before the file is read."""

    storage: Any
    offset: Any
    shape: Any
    strides: Any


def read_saved(path: Path, classes: Sequence[tuple[str, str]]) -> Any:
    """Return an object that ``torch.save`` has written: its tensors are arrays, which are mapped to memory.

    Parameters
    ----------
    path
        The file.
    classes
        Module and name of the classes whose objects become `Record`.

    Raises
    ------
    InputError
        If it is no such file, is damaged, or holds objects of other classes.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            files = {one.filename.partition("/")[2]: one for one in archive.infolist()}
            if "byteorder" in files and _mapped(path, files["byteorder"])[:6].tobytes() != b"little":
                raise InputError(f"convert: expected little-endian numbers in {path}, got others; write it once more")
            content = _mapped(path, files["data.pkl"])
            if len(content) > _MOST_BYTES:
                raise ValueError(f"{len(content)} bytes for the names of tensors")
            return _resolved(_loaded(content.tobytes(), classes), lambda key: _mapped(path, files[f"data/{key}"]))
    except _DAMAGED as cause:
        if isinstance(cause, InputError):
            raise
        raise InputError(
            f"convert: expected a file of torch.save in {path}, got another one, or a damaged one ({cause}); write it "
            "once more"
        ) from cause


def _loaded(content: bytes, classes: Sequence[tuple[str, str]]) -> Any:
    """Return the objects of a pickle, with stand-ins that cannot be changed for all that it names."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) > len(content):
            raise ValueError("a place for more objects than there are")  # which would take memory at once
    return _Reader(io.BytesIO(content), classes).load()


class _Reader(pickle.Unpickler):
    def __init__(self, file: Any, classes: Sequence[tuple[str, str]]) -> None:
        super().__init__(file)
        self._classes = set(classes)

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a global name of the pickle, which is not imported."""
        if (module, name) in self._classes:
            return Record
        if (module, name) == ("collections", "OrderedDict"):
            return _Call("mapping")
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _Call("tensor")
        if module == "torch" and name in _STORAGES:
            return name
        raise InputError(
            f"convert: expected tensors, got {module}.{name}: it is not imported, as that could run code; write the "
            "arrays by numpy.save"
        )

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the storage that is named."""
        _, dtype, key, _, size = pid
        return _Storage(dtype, key, size)


class _Call(NamedTuple):
    """A function that a pickle may call."""

    kind: str

    def __call__(self, *args: Any) -> Any:
        """Return what it makes."""
        return {} if self.kind == "mapping" else _Tensor(*args[:4])


def _resolved(value: Any, content: Callable[[str], NDArray[Any]]) -> Any:
    """Return what was loaded, with arrays in the place of tensors."""
    if isinstance(value, _Tensor):
        return _array(value, content)
    if isinstance(value, Record):
        value.state = _resolved(value.state, content)
        return value
    if isinstance(value, dict):
        return {name: _resolved(one, content) for name, one in value.items()}
    return type(value)(_resolved(one, content) for one in value) if type(value) in (tuple, list) else value


def _array(tensor: _Tensor, content: Callable[[str], NDArray[Any]]) -> NDArray[Any]:
    """Return a tensor of a storage, which is stored row by row."""
    storage, offset, shape, strides = tensor
    if not isinstance(storage, _Storage) or len(shape) > _MOST_DIMENSIONS:
        raise ValueError("a tensor of no storage, or of too many dimensions")
    dtype, bytes_ = _STORAGES[storage.dtype], content(storage.key)
    if not 0 <= storage.size * dtype.itemsize <= len(bytes_):
        raise ValueError(f"storage {storage.key} is shorter than its {storage.size} numbers")
    numbers = bytes_[: storage.size * dtype.itemsize].view(dtype)
    count = math.prod(shape)
    rows = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
    if count > 1 and any(one != row for one, row, size in zip(strides, rows, shape, strict=True) if size != 1):
        raise ValueError(f"a tensor of strides {list(strides)}, which is not contiguous")
    if offset < 0 or min(shape, default=0) < 0 or offset + count > len(numbers):
        raise ValueError("a tensor that is larger than its storage")
    return numbers[offset : offset + count].reshape(tuple(shape))


def _mapped(path: Path, member: zipfile.ZipInfo) -> NDArray[np.uint8]:
    """Return the bytes of a file of an archive, which are not packed there."""
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{member.filename} is packed")
    if member.file_size == 0:
        return np.empty(0, np.uint8)
    head = np.fromfile(path, np.uint8, _LOCAL_HEAD, offset=member.header_offset).tobytes()
    lengths = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
    start = member.header_offset + _LOCAL_HEAD + lengths
    return np.memmap(path, np.uint8, "r", start, (member.file_size,))
