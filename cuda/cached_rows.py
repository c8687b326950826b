"""Rows that a cache on a device has, or a source that the device reads in place."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headrace.cuda.instances import WORDS
from headrace.cuda.kept import keep
from headrace.cuda.launch import launch
from headrace.cuda.rows import LONG_ROW
from headrace.cuda.streams import wait_here

_WORD_BYTES = {16: WORDS[4], 8: WORDS[3], 4: WORDS[2], 2: WORDS[1], 1: WORDS[0]}


def gather_cached(cache: Tensor, slots: Tensor, source: Tensor, ids: Tensor, out: Tensor) -> None:
    """Copy rows: ``out[i]`` is ``cache[slots[i]]``, or ``source[ids[i]]`` where ``slots[i]`` is below 0.

    Parameters
    ----------
    cache
        [num_slots, ...], contiguous.
    slots
        int64[n].
    source
        [num_rows, ...] on the device or in pinned memory of the host; single rows are contiguous.
    ids
        int32 or int64[n], which have rows.
    out
        [n, ...] contiguous. All is of one dtype.
    """
    row_bytes = math.prod(out.shape[1:]) * out.element_size()
    num_ids = ids.shape[0]
    if not row_bytes or not num_ids:
        return
    stride = (source.stride(0) if source.shape[0] > 1 else math.prod(source.shape[1:])) * source.element_size()
    size = math.gcd(row_bytes, stride, cache.data_ptr(), source.data_ptr(), out.data_ptr(), 16)
    keep(source, out.device)
    arguments = (cache, slots, source.data_ptr(), stride // size, ids, num_ids, row_bytes // size, out)
    types, also = (ids.dtype, _WORD_BYTES[size]), (source,)
    # Not capped by threads_of_bus: how many rows come over the bus is not known here, and those of the device want all.
    if row_bytes >= LONG_ROW:
        launch("gather_cached", types, 32 * num_ids, *arguments, device=out.device, also=also)
    else:
        launch("gather_short_cached", types, row_bytes // size * num_ids, *arguments, device=out.device, also=also)


def fill_cache(cache: Tensor, fills: Tensor, rows: Tensor) -> None:
    """Copy rows into slots: ``cache[fills[i]] = rows[i]``, where ``fills[i]`` is not below 0. Arrays are contiguous."""
    row_bytes = math.prod(rows.shape[1:]) * rows.element_size()
    num_rows = rows.shape[0]
    if not row_bytes or not num_rows or not cache.shape[0]:
        return
    size = math.gcd(row_bytes, cache.data_ptr(), rows.data_ptr(), 16)
    words = row_bytes // size
    arguments = (cache, fills, rows, num_rows, words)
    launch("fill_cache", (_WORD_BYTES[size],), words * num_rows, *arguments, device=rows.device)


def missing_ids(slots: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return which ids are missing, in CPU memory, and the position of each among them, int64[n]. Waits."""
    wait_here()
    is_missing = slots < 0
    return ids[is_missing].cpu(), torch.cumsum(is_missing, 0) - 1
