"""Huge pages for large tables."""

from __future__ import annotations

import numpy as np
import torch

from headrace.ops import _native
from headrace.ops._arrays import Array
from headrace.ops.errors import InputError


def use_huge_pages(array: Array) -> int:
    """Move an array's memory into huge pages, which makes reading it at random faster; its address stays.

    Gathering random rows from gigabytes of ordinary pages waits as long for the translation of addresses as for the
    memory itself. PyTorch does not request huge pages; NumPy does when it allocates. Moving takes about a second per
    GB, once. Memory without pages gets pages.

    Parameters
    ----------
    array : torch.Tensor or numpy.ndarray
        Features, indptr, indices, ... in CPU memory, contiguous. Memory maps of files are left alone.

    Returns
    -------
    int
        Bytes that are in huge pages now, 0 if the system does not support it (Linux does from 6.1 on).

    Raises
    ------
    InputError
        If it is anything but a contiguous CPU tensor or NumPy array.
    """
    if isinstance(array, torch.Tensor):
        dense = array.device.type == "cpu" and array.layout == torch.strided
        if dense and array.is_contiguous():
            return _native.use_huge_pages(array.data_ptr(), array.numel() * array.element_size())
    elif isinstance(array, np.ndarray) and array.flags.c_contiguous:
        return _native.use_huge_pages(array.ctypes.data, array.nbytes)
    message = f"use_huge_pages: expected array to be a contiguous CPU tensor or NumPy array, got {type(array).__name__}"
    if isinstance(array, torch.Tensor | np.ndarray):
        message += f"{list(array.shape)}, which is not; pass a contiguous copy"
    raise InputError(message)
