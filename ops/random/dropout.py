"""Dropout masks that depend on what a row stands for, not on where it is."""

from __future__ import annotations

import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_count, as_key, as_num_threads, as_numpy
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_of
from headrace.ops.random import on_gpu


def dropout_mask(key: int, ids: Array, width: int, probability: float, *, num_threads: int = 1) -> torch.Tensor:
    """Return the dropout mask of rows: word j of the stream of a row's id decides its element j.

    Rows of one id have the same mask, in any process and order.

    Parameters
    ----------
    key : int
        Stream key, see `stream_key`.
    ids : torch.Tensor or numpy.ndarray
        int64[n], the ids of the rows.
    width : int
        Elements of a row.
    probability : float
        The probability of dropping an element, in [0, 1]; exact to 2**-32.
    num_threads : int
        The result does not depend on it.

    Returns
    -------
    torch.Tensor
        bool[n, width], true where an element is kept.

    Raises
    ------
    InputError
        For a probability outside [0, 1], a wrong dtype or shape, or a mask that is too large.
    """
    stage = "dropout_mask"
    if isinstance(probability, bool) or not isinstance(probability, (int, float)) or not 0 <= probability <= 1:
        message = f"{stage}: expected probability to be a number in [0, 1], got {probability!r}"
        raise InputError(message)
    width = as_count(width, "width", stage=stage)
    threads = as_num_threads(num_threads, stage=stage)
    device = device_of(ids)
    if device is not None:
        return on_gpu.dropout_mask(as_key(key, stage=stage), ids, width, round(probability * 2**32), device, stage)
    values = as_numpy(ids, "ids", stage=stage)
    kept = _native.dropout_mask(as_key(key, stage=stage), values, width, round(probability * 2**32), threads)
    return torch.from_numpy(kept).view(len(values), width)
