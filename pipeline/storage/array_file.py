"""Arrays in plain .npy files: written a piece at a time, read into memory or as memory maps."""

from __future__ import annotations

import io
import math
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, Literal, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import InputError
from headrace.ops.forks import ProcessLock
from headrace.pipeline.data.arrays import as_cpu_tensor, describe
from headrace.pipeline.data.narrow_dtypes import bits_dtype, numpy_dtype
from headrace.pipeline.data.written_file import written_file
from headrace.pipeline.storage.opened_files import MAGIC, open_regular, what_came

# NumPy parses headers by `ast`, which in CPython 3.11 may fail with SystemError where several threads are in it.
_HEADER_LOCK = ProcessLock()
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}

#: What NumPy raises for files that are none of its own.
DAMAGED = (ValueError, EOFError, TypeError, OverflowError, SyntaxError, RecursionError, TokenError)

#: Bytes of rows that are read, and of files that are written, at a time.
PIECE_BYTES = 8 << 20

#: Elements of the largest array that can be addressed.
_MOST = 1 << 60

#: The files that are mapped, by their addresses in Python, as long as somebody has an array of them.
_MAPS: WeakValueDictionary[int, mmap.mmap] = WeakValueDictionary()


def write_array(
    path: Path,
    dtype: torch_dtype,
    shape: tuple[int, ...],
    pieces: Iterable[Tensor],
    *,
    header_written: Callable[[bytes], object] = len,
    piece_written: Callable[[memoryview], object] = len,
) -> None:
    """Write an array to a new file whose pieces follow each other along the first dimension.

    Written as a stream rather than through a memory map, so that a full disk is an error and not a signal.

    Parameters
    ----------
    path
        Of the file.
    dtype, shape
        Of the whole array. Of a dtype that NumPy lacks the file has records of one field, named after it.
    pieces
        Contiguous tensors of that dtype.
    header_written, piece_written
        Called with the bytes of the header, and with those of each piece, when they are written.

    Raises
    ------
    InputError
        If other pieces come than the array is to have.
    OSError
        If the file exists, or cannot be written.
    """
    with array_writer(path, dtype, shape, header_written=header_written, piece_written=piece_written) as write:
        for piece in pieces:
            write(piece)


@contextmanager
def array_writer(
    path: Path,
    dtype: torch_dtype,
    shape: tuple[int, ...],
    *,
    header_written: Callable[[bytes], object] = len,
    piece_written: Callable[[memoryview], object] = len,
) -> Iterator[Callable[[Tensor], None]]:
    """Yield what writes the next piece of an array to a new file; `write_array` has the parameters and errors."""
    shape = tuple(map(int, shape))
    stored = stored_dtype(dtype)
    num_rows = 0
    with written_file(path) as write:
        header = {"descr": np.lib.format.dtype_to_descr(numpy_dtype(dtype)), "fortran_order": False, "shape": shape}
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, header)
        write(head.getvalue())
        header_written(head.getvalue())

        def append(piece: Tensor) -> None:
            nonlocal num_rows
            num_rows += len(piece)
            if piece.dtype != dtype or piece.shape[1:] != shape[1:]:
                expected = describe(torch.empty(0, *shape[1:], dtype=dtype, device="cpu"))
                raise InputError(
                    f"{path.stem}: expected {expected}, got pieces of "
                    f"{describe(piece)}; let its source return the rows that its dtype and shape declare"
                )
            content = piece.resolve_conj().resolve_neg().reshape(-1).view(stored).numpy().data
            write(content)
            piece_written(content)

        yield append
        if num_rows != shape[0]:
            raise InputError(f"{path.stem}: expected {shape[0]} rows, got {num_rows}; let its source return them all")


def read_array(path: Path, dtype: torch_dtype, shape: tuple[int, ...], *, memory_map: bool) -> Tensor:
    """Return the array of a file; `open_array` says what is checked.

    Parameters
    ----------
    path
        Of the file.
    dtype, shape
        What it must hold.
    memory_map
        Leave the array on disk, and read what is asked for.

    Raises
    ------
    InputError
        If there is no such file, or it holds something else.
    """
    return as_cpu_tensor(open_stored(path, dtype, shape, memory_map=memory_map), str(path)).view(dtype)


def open_stored(path: Path, dtype: torch_dtype, shape: tuple[int, ...], *, memory_map: bool) -> NDArray[Any]:
    """Return the array of a file as it is stored; `read_array` has the parameters and errors."""
    # Files of before the records hold such dtypes as integers.
    stored = (numpy_dtype(dtype), bits_dtype(stored_dtype(dtype)))
    return open_array(path, memory_map=memory_map, expected=(stored, shape))


def open_array(
    path: Path,
    *,
    memory_map: bool,
    expected: tuple[Sequence[np.dtype[Any]], tuple[int, ...]] | None = None,
    is_ours: bool = True,
) -> NDArray[Any]:
    """Return the array of a ``.npy`` file, read-only.

    Before a value is read, the file must be a regular one and exactly as long as its header says. What cannot be
    guarded: a file that is shortened later, while it is mapped, ends the process with SIGBUS at the next look at what
    is gone. Replace files by others of the same name (`overwrite=True` does) instead of writing into them, or
    read them into memory.

    Parameters
    ----------
    path
        Of the file.
    memory_map
        Leave the array on disk, and read what is asked for.
    expected
        Which dtypes it may have, and its shape; by default any but Python objects.
    is_ours
        Whether headrace wrote it: then other contents are damage, and not what a user may have meant.

    Raises
    ------
    InputError
        If there is no such file, it is no regular one, or it holds something else.
    """
    with _explained(path), open_regular(path) as file:
        shape, fortran_order, dtype = _read_header(path, file, is_ours=is_ours)
        _check_expected(path, dtype, shape, expected)
        start = file.tell()
        _check_size(os.fstat(file.fileno()).st_size, start + math.prod(shape) * dtype.itemsize)
        if math.prod(shape) == 0:
            return np.empty(shape, dtype)
        order: Literal["C", "F"] = "F" if fortran_order else "C"
        if memory_map:
            # Of this very file, not of what may have its name by now.
            mapped = np.memmap(file, dtype, "r", start, shape, order)
            if isinstance(mapped.base, mmap.mmap):
                _MAPS[id(mapped.base)] = mapped.base
            return mapped
        array = np.fromfile(file, dtype, math.prod(shape))
        return array.reshape(shape, order=order)


def let_pages_go() -> None:
    """Let go of the pages of mapped files, which count as memory of the process; they are read again when needed."""
    for reference in _MAPS.valuerefs():  # a list made at once: other threads open files meanwhile
        one = reference()
        if one is not None:
            one.madvise(mmap.MADV_DONTNEED)


class OpenRows(NamedTuple):
    """A ``.npy`` file that is open, and where its rows lie in it: one behind the other, from `start` on."""

    file: BinaryIO
    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@contextmanager
def open_rows(path: Path) -> Iterator[OpenRows]:
    """Open a ``.npy`` file of rows, at least one dimension in C order, that is exactly as long as its header says.

    Raises
    ------
    InputError
        As of `open_array`, and for an array in Fortran order, whose rows are scattered, or without a dimension.
    """
    with ExitStack() as stack:
        with _explained(path):
            file = stack.enter_context(open_regular(path))
            shape, fortran_order, dtype = _read_header(path, file)
            start = file.tell()
            _check_size(os.fstat(file.fileno()).st_size, start + math.prod(shape) * dtype.itemsize)
        if not shape:
            raise InputError(f"expected one row per id in {path}, got a single number; write an array of rows")
        if fortran_order and len(shape) > 1:
            raise InputError(
                f"expected rows that lie together in {path}, got an array in Fortran order, whose rows are scattered "
                "over the file; write it as numpy.ascontiguousarray(array)"
            )
        yield OpenRows(file, start, shape, dtype)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn whatever opening and reading an array raises into an error that says what to do."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as cause:
        raise InputError(
            f"expected an array in {path}, but there is no such file; name one that is there, or copy it once more"
        ) from cause
    except OSError as cause:
        raise InputError(
            f"expected an array in {path}, but it cannot be read ({cause.strerror}); mend that, or copy it once more"
        ) from cause
    except MemoryError as cause:
        raise InputError(
            f"expected an array that fits in memory in {path}, got a larger one; leave it on disk (memory_map=True)"
        ) from cause
    except DAMAGED as cause:
        raise InputError(f"expected an array in {path}, got a damaged file ({cause}); copy it once more") from cause


def _read_header(path: Path, file: BinaryIO, *, is_ours: bool = False) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    if file.read(len(MAGIC)) != MAGIC:
        raise InputError(f"expected an array in {path}, as numpy.save writes it, got {what_came(path, file)}")
    file.seek(0)
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"its format is {version}")
    with _HEADER_LOCK.held():
        shape, fortran_order, dtype = _HEADERS[version](file)
    if dtype.hasobject and is_ours:
        raise ValueError("it holds Python objects, which would have to be unpickled")
    if dtype.hasobject:
        raise InputError(
            f"expected an array of numbers in {path}, got Python objects (dtype=object), which are not unpickled, as "
            "that could run code; write numbers: numpy.save(path, array.astype(numpy.float32)), rows of one length"
        )
    if any(type(size) is not int or size < 0 for size in shape) or math.prod(max(size, 1) for size in shape) > _MOST:
        raise ValueError(f"its header has shape {shape}")
    return shape, fortran_order, dtype


def _check_size(size: int, stated: int) -> None:
    if size != stated:
        raise ValueError(f"it has {size} bytes, by its header {stated}")


def _check_expected(
    path: Path,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    expected: tuple[Sequence[np.dtype[Any]], tuple[int, ...]] | None,
) -> None:
    if expected is None:
        return
    dtypes, sizes = expected
    if dtype not in dtypes or shape != sizes:
        came, wanted = (f"{one}[{', '.join(map(str, of))}]" for one, of in ((dtype, shape), (dtypes[0], sizes)))
        raise InputError(f"expected {wanted} in {path}, got {came}; the file is not the one that was written")


def stored_dtype(dtype: torch_dtype) -> torch_dtype:
    """Return the dtype as which the bits of an array are written: its own, or the integer of its width."""
    try:
        bits_dtype(dtype)
    except TypeError:
        return {1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
    return dtype
