"""Arrays in plain .npy files: written a piece at a time, read into memory or as memory maps."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import FeatureError, InputError
from headrace.pipeline.arrays import as_cpu_tensor, describe


def write_array(path: Path, dtype: torch_dtype, shape: tuple[int, ...], pieces: Iterable[Tensor]) -> None:
    """Write an array to a new file whose pieces follow each other along the first dimension.

    Written as a stream rather than through a memory map, so that a full disk is an error and not a signal.

    Parameters
    ----------
    path
        Of the file.
    dtype, shape
        Of the whole array. A dtype that NumPy lacks is kept as integers of its width.
    pieces
        Contiguous tensors of that dtype.

    Raises
    ------
    FeatureError
        If other pieces come than the array is to have.
    OSError
        If the file exists, or cannot be written.
    """
    shape = tuple(map(int, shape))
    stored = stored_dtype(dtype)
    num_rows = 0
    with path.open("xb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(_of_numpy(stored)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for piece in pieces:
            num_rows += len(piece)
            if piece.dtype != dtype or piece.shape[1:] != shape[1:]:
                raise FeatureError(
                    f"{path.stem}: expected {describe(torch.empty(0, *shape[1:], dtype=dtype))}, got pieces of "
                    f"{describe(piece)}; its source must return the rows that its dtype and shape announce"
                )
            file.write(piece.reshape(-1).view(stored).numpy().data)
        if num_rows != shape[0]:
            raise FeatureError(
                f"{path.stem}: expected {shape[0]} rows, got {num_rows}; its source must return them all"
            )
        # What is renamed into place afterwards must not turn up empty after a loss of power.
        file.flush()
        os.fsync(file.fileno())


def read_array(path: Path, dtype: torch_dtype, shape: tuple[int, ...], *, memory_map: bool) -> Tensor:
    """Return the array of a file.

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
    try:
        array = np.load(path, mmap_mode="r" if memory_map else None, allow_pickle=False)
    except FileNotFoundError as cause:
        raise InputError(
            f"expected an array in {path}, but there is no such file; copy the shards once more"
        ) from cause
    except (ValueError, EOFError) as cause:
        raise InputError(f"expected an array in {path}, got a damaged file ({cause}); copy it once more") from cause
    stored = stored_dtype(dtype)
    if not isinstance(array, np.ndarray) or array.dtype != _of_numpy(stored) or array.shape != shape:
        came = describe(array) if isinstance(array, np.ndarray) else "an archive"
        expected = f"{_of_numpy(stored)}[{', '.join(map(str, shape))}]"
        raise InputError(f"expected {expected} in {path}, got {came}; the file is not of these shards")
    return as_cpu_tensor(array, path.name, InputError).view(dtype)


def stored_dtype(dtype: torch_dtype) -> torch_dtype:
    """Return the dtype of an array's file: its own, or, where NumPy has none such, the integer of its width."""
    try:
        _of_numpy(dtype)
    except TypeError:
        return {1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
    return dtype


def _of_numpy(dtype: torch_dtype) -> np.dtype[Any]:
    return torch.empty(0, dtype=dtype).numpy().dtype
