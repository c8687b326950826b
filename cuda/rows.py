"""Rows of features on a device: twins of ``ops/native/features``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.bus import threads_of_bus
from headrace.cuda.faults import Faults
from headrace.cuda.instances import WORDS
from headrace.cuda.kept import keep
from headrace.cuda.launch import launch
from headrace.cuda.streams import in_order

#: Kinds of faults, by their numbers in ``kernels/gather.cu``.
FAULTS = ("no row", "no place")

#: Rows of fewer bytes are copied by a thread for each word, longer ones by a warp each.
LONG_ROW = 256

_WORD_BYTES = {16: WORDS[4], 8: WORDS[3], 4: WORDS[2], 2: WORDS[1], 1: WORDS[0]}


def gather_rows(source: Tensor, ids: Tensor, out: Tensor, places: Tensor | None, *, trusted: bool = False) -> None:
    """Copy rows that ids name: ``out[places[i]] = source[ids[i]]``.

    Parameters
    ----------
    source
        [num_rows, ...], on the device or in pinned memory of the host; single rows are contiguous.
    ids
        int32 or int64[n], on the device.
    out
        [n, ...] contiguous of the same dtype, on the device.
    places
        int64[n] or None.
    trusted
        Whether all ids and places are known to be good: then nobody looks, and the host does not wait.

    Raises
    ------
    Fault
        "no row" or "no place"; nothing is written then.
    """
    device, faults = ids.device, None if trusted else Faults(FAULTS, ids.device)
    items = None if faults is None else faults.items
    if faults is not None:
        arguments = (ids, len(ids), source.shape[0], places, len(out), items)
        launch("check_rows", (ids.dtype,), len(ids), *arguments, device=device)
    row_bytes = math.prod(source.shape[1:]) * source.element_size()
    if row_bytes and len(ids):
        stride = (source.stride(0) if len(source) > 1 else math.prod(source.shape[1:])) * source.element_size()
        size, word = _word(row_bytes, stride, source.data_ptr(), out.data_ptr())
        row = (row_bytes // size, places, out, items)
        kernel, threads = _kernel(row_bytes // size, row_bytes, len(ids), device, on_host=source.device != device)
        if trusted:  # else the host waits
            keep(source, device)
        copied = (source.data_ptr(), stride // size, ids, len(ids), *row)
        launch(kernel, (ids.dtype, word), threads, *copied, device=device, also=(source,))
    if faults is not None:
        faults.check()


class Tables(NamedTuple):
    """Tables that a device reads in place, listed for it once.

    Attributes
    ----------
    tensors
        [num_rows, ...] contiguous, of one dtype and one shape of rows.
    sizes, addresses
        int64[num_tables] on the device: how many rows each has, and where they begin.
    """

    tensors: tuple[Tensor, ...]
    sizes: Tensor
    addresses: Tensor

    @staticmethod
    def on(device: torch.device, tensors: Sequence[Tensor]) -> Tables:
        """Return the list of tables for a device. Waits for it."""
        sizes = torch.tensor([len(one) for one in tensors], dtype=torch.int64, device=device)
        addresses = torch.tensor([one.data_ptr() for one in tensors], dtype=torch.int64, device=device)
        return Tables(tuple(tensors), sizes, addresses)


def gather_tables(
    tables: Tables, table: Tensor, row: Tensor, out: Tensor, places: Tensor | None, *, trusted: bool = False
) -> None:
    """Copy rows of several tables: ``out[places[i]] = tables[table[i]][row[i]]``.

    Parameters
    ----------
    tables
        Of the dtype and the shape of rows of `out`.
    table, row
        int32 and int64[n], on the device.
    out
        [n, ...] contiguous, on the device.
    places
        int64[n] or None.
    trusted
        Whether there are all rows and places: then nobody looks, and the host does not wait.

    Raises
    ------
    Fault
        "no row" or "no place"; nothing is written then.
    """
    device, faults = out.device, None if trusted else Faults(FAULTS, out.device)
    items = None if faults is None else faults.items
    if faults is not None:
        arguments = (tables.sizes, len(tables.tensors), table, row, len(row), places, len(out), items)
        launch("check_tables", (), len(row), *arguments, device=device)
    row_bytes = math.prod(out.shape[1:]) * out.element_size()
    if row_bytes and len(row):
        size, word = _word(row_bytes, out.data_ptr(), *(one.data_ptr() for one in tables.tensors))
        copied = (tables.addresses, table, row, len(row), row_bytes // size, places, out, items)
        if trusted:
            for one in tables.tensors:
                keep(one, device)
        launch("gather_tables", (word,), 32 * len(row), *copied, device=device, also=tables.tensors)
    if faults is not None:
        faults.check()


def locate_rows(
    rank: Tensor, ids: Tensor, replicated: int, interleaved: int, num_devices: int, host: int, here: int
) -> tuple[Tensor, Tensor, list[int]]:
    """Return the table and the row of each id, int32[n] and int64[n], and how many ids are in each table.

    See ``headrace.ops.locate_rows``. The host waits once.

    Raises
    ------
    Fault
        "no row".
    """
    device, faults = ids.device, Faults(FAULTS, ids.device)
    table = torch.empty(len(ids), dtype=torch.int32, device=device)
    row = torch.empty(len(ids), dtype=torch.int64, device=device)
    sizes = (replicated, interleaved, num_devices, host, here)
    arguments = (rank, len(rank), ids, len(ids), *sizes, table, row, faults.items)
    launch("locate_rows", (rank.dtype, ids.dtype), len(ids), *arguments, device=device)
    in_order()
    # bincount would wait; of a faulty id the table may be any number.
    counts = (table[:, None] == torch.arange(num_devices + 2, dtype=torch.int32, device=device)).sum(0)
    return table, row, faults.check(counts)


def check_ids(ids: Tensor, num_rows: int) -> None:
    """Refuse ids, int32 or int64[n], that have no rows. Waits for the device.

    Raises
    ------
    Fault
        "no row".
    """
    faults = Faults(FAULTS, ids.device)
    arguments = (ids, len(ids), num_rows, None, 0, faults.items)
    launch("check_rows", (ids.dtype,), len(ids), *arguments, device=ids.device)
    faults.check()


def scatter_add_rows(out: Tensor, ids: Tensor, rows: Tensor, *, trusted: bool = False) -> None:
    """Add ``rows[i]`` to ``out[ids[i]]``, in the order of i.

    Parameters
    ----------
    out, rows
        float32 or float64, [num_rows, ...] and [n, ...], contiguous.
    ids
        int32 or int64[n].
    trusted
        Whether all ids are known to be good: then nobody looks, and the host does not wait.

    Raises
    ------
    Fault
        "no row"; nothing is added then.
    """
    device = out.device
    if not trusted:
        check_ids(ids, len(out))
    width = math.prod(out.shape[1:])
    in_order, order = torch.sort(ids, stable=True)
    arguments = (out, width, in_order, order, len(ids), rows)
    launch("scatter_add_rows", (out.dtype, ids.dtype), len(ids) * width, *arguments, device=device)


def _word(*bytes_or_addresses: int) -> tuple[int, str]:
    """Return the widest word that divides all numbers, in bytes and in C++."""
    size = math.gcd(*bytes_or_addresses, 16)
    return size, _WORD_BYTES[size]


def _kernel(words: int, row_bytes: int, num_rows: int, device: torch.device, *, on_host: bool) -> tuple[str, int]:
    """Return which kernel copies rows, and how many threads it wants."""
    kernel, threads = (
        ("gather_rows", 32 * num_rows) if row_bytes >= LONG_ROW else ("gather_short_rows", words * num_rows)
    )
    return kernel, min(threads, threads_of_bus(device)) if on_host else threads
