"""Rows that lie in several tables, by rank: the hottest ones where reading is fastest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.autograd.graph import increment_version

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_num_threads, as_numpy, is_int
from headrace.ops.errors import InputError
from headrace.ops.features import on_gpu
from headrace.ops.gpu import device_of, is_readable

if TYPE_CHECKING:
    from collections.abc import Sequence


_MOST_DEVICES = 1 << 16  # more than any machine has; their numbers fit into 32 bits


@dataclass(frozen=True)
class TierSizes:
    """The number of rows at each place, by rank: the hottest row has rank 0.

    Attributes
    ----------
    replicated : int
        The hottest rows; each device has a copy of them.
    interleaved : int
        The next rows, distributed over the devices one by one, so that all devices get about as many reads.
    host : int
        The next rows, in host memory. All others stay in the source.
    num_devices : int
        The number of devices; 0 if there is none, and then no row on one.
    """

    replicated: int = 0
    interleaved: int = 0
    host: int = 0
    num_devices: int = 0

    def __post_init__(self) -> None:
        """Check the sizes."""
        sizes = (self.replicated, self.interleaved, self.host, self.num_devices)
        if any(isinstance(size, bool) or not isinstance(size, int) or size < 0 for size in sizes):
            message = f"TierSizes: expected whole numbers of at least 0, got {sizes}"
            raise InputError(message)
        if self.num_devices > _MOST_DEVICES:
            message = f"TierSizes: {self.num_devices} devices, expected at most {_MOST_DEVICES}"
            raise InputError(message)
        if self.num_devices == 0 and self.replicated + self.interleaved > 0:
            on_devices = self.replicated + self.interleaved
            message = f"TierSizes: expected num_devices of at least 1 for {on_devices} rows on devices, got 0"
            raise InputError(message)

    @property
    def num_placed(self) -> int:
        """The number of rows that do not stay in the source."""
        return self.replicated + self.interleaved + self.host

    def interleaved_at(self, device: int) -> int:
        """Return the number of interleaved rows at one device; devices differ by at most one."""
        return (self.interleaved - device + self.num_devices - 1) // self.num_devices


def locate_rows(
    rank: Array, ids: Array, sizes: TierSizes, *, here: int = 0, num_threads: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find where rows are (Data Tiering, arXiv 2111.05894).

    Parameters
    ----------
    rank : torch.Tensor or numpy.ndarray
        int32[num_rows] or int64[num_rows], the rank of each row, each once.
    ids : torch.Tensor or numpy.ndarray
        int32[n] or int64[n].
    sizes : TierSizes
        The number of rows at each place.
    here : int
        The device whose copy of replicated rows is read.
    num_threads : int
        The result does not depend on it.

    Returns
    -------
    table : torch.Tensor
        int32[n]: the number of a device, ``num_devices`` for the host, one more for the source.
    row : torch.Tensor
        int64[n]: the row in that table. Devices have replicated rows first; in the source the row is the id.

    Raises
    ------
    InputError
        If an id has no row, or there is no such device.
    """
    table, row, _ = _located(rank, ids, sizes, here, num_threads, "locate_rows")
    return table, row


def locate_and_count(
    rank: Array, ids: Array, sizes: TierSizes, *, here: int = 0, num_threads: int = 1
) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Do what `locate_rows` does, and return also how many ids are in each table; the host waits for a GPU once."""
    table, row, counts = _located(rank, ids, sizes, here, num_threads, "locate_and_count")
    if counts is None:
        counts = torch.bincount(table, minlength=sizes.num_devices + 2).tolist()
    return table, row, counts


def _located(
    rank: Array, ids: Array, sizes: TierSizes, here: int, num_threads: int, stage: str
) -> tuple[torch.Tensor, torch.Tensor, list[int] | None]:
    if not is_int(here) or not 0 <= here < max(sizes.num_devices, 1):
        message = f"{stage}: expected here to be one of {sizes.num_devices} devices, got {here}"
        raise InputError(message)
    device = device_of(ids)
    if device is not None:
        return on_gpu.locate(rank, ids, sizes, here, device, stage=stage)
    ranks = as_numpy(rank, "rank", stage=stage, dtypes=ID_DTYPES)
    nodes = as_numpy(ids, "ids", stage=stage, dtypes=ID_DTYPES)
    table, row = _native.locate_rows(
        ranks,
        nodes,
        sizes.replicated,
        sizes.interleaved,
        sizes.num_devices,
        sizes.host,
        here,
        as_num_threads(num_threads, stage=stage),
    )
    return torch.from_numpy(table), torch.from_numpy(row), None


class GpuTables:
    """Tables that a GPU reads in place, made ready for many gathers: what `gather_tables` takes in place of a sequence.

    Parameters
    ----------
    tables : sequence of torch.Tensor
        [num_rows, ...] contiguous, of one dtype and one shape of rows: on the GPU, on another one, or pinned.
    device : torch.device
        The GPU.

    Raises
    ------
    InputError
        For tables that are not contiguous, or that the GPU cannot read in place.
    """

    def __init__(self, tables: Sequence[torch.Tensor], device: torch.device) -> None:
        for i, one in enumerate(tables):
            _check_place(f"tables[{i}]", one, device, "gather_tables")
        self.device = device
        self.listed = on_gpu.listed(tables, device)

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The tables."""
        return self.listed.tensors


def gather_tables(
    tables: Sequence[torch.Tensor] | GpuTables,
    table: Array,
    row: Array,
    out: torch.Tensor,
    *,
    places: Array | None = None,
    num_threads: int = 1,
    trusted: bool = False,
) -> torch.Tensor:
    """Copy rows of several tables in one gather: ``out[places[i]] = tables[table[i]][row[i]]``.

    Parameters
    ----------
    tables : sequence of torch.Tensor or GpuTables
        [num_rows, ...] contiguous, of one dtype and one shape of rows.
    table, row : torch.Tensor or numpy.ndarray
        int32[n] and int64[n].
    out : torch.Tensor
        [n, ...] contiguous, of the dtype of the tables, written and returned; with `places`, [num_rows_of_out, ...].
    places : torch.Tensor or numpy.ndarray, optional
        int64[n], distinct: where in `out` to put each row. The other rows of `out` stay.
    num_threads : int
        The result does not depend on it.
    trusted : bool
        A promise that all rows and places exist. A GPU then checks nothing, and the host does not wait; the CPU checks
        anyway.

    Raises
    ------
    InputError
        If there is no such row, table or place, or the tables or `out` have wrong dtypes or shapes. Nothing is written
        then.
    """
    stage = "gather_tables"
    if not isinstance(out, torch.Tensor) or out.ndim == 0:
        raise InputError(f"{stage}: expected out to be a tensor [n, ...], got {type(out).__name__}")
    device, shape = device_of(out), tuple(out.shape[1:])
    ready, tensors = (tables, tables.tensors) if isinstance(tables, GpuTables) else (None, tables)
    for name, one in ((f"tables[{i}]", one) for i, one in enumerate(tensors)):
        if one.dtype != out.dtype or one.shape[1:] != out.shape[1:]:
            message = (
                f"{stage}: expected rows as of out, {out.dtype}{list(shape)}, got {name} {one.dtype}{list(one.shape)}"
            )
            raise InputError(message)
        if ready is None:
            _check_place(name, one, device, stage)
    _check_place("out", out, device, stage)
    if ready is not None and ready.device != out.device:
        message = f"{stage}: expected out on {ready.device}, which the tables were made ready for, got {out.device}"
        raise InputError(message)
    if device is not None:
        listed = on_gpu.listed(tensors, device) if ready is None else ready.listed
        return on_gpu.gather_from_tables(listed, table, row, out, places, stage=stage, trusted=trusted is True)
    numbers = as_numpy(table, "table", stage=stage, dtypes=("int32",))
    rows = as_numpy(row, "row", stage=stage)
    targets = None if places is None else as_numpy(places, "places", stage=stage)
    if targets is None and len(out) != len(rows):
        message = f"{stage}: expected a row of out for each of {len(rows)} rows, got {len(out)}"
        raise InputError(message)
    _native.gather_tables(
        [(one.data_ptr(), len(one)) for one in tensors],
        math.prod(shape) * out.element_size(),
        numbers,
        rows,
        out.data_ptr(),
        as_num_threads(num_threads, stage=stage),
        targets,
        len(out),
    )
    increment_version(out)  # autograd has not seen the write
    return out


def _check_place(name: str, one: torch.Tensor, device: torch.device | None, stage: str) -> None:
    """Refuse what a gather on a device, or on the CPU, cannot read or write in place."""
    there = one.is_cpu if device is None else is_readable(one, device)
    if not there or not one.is_contiguous():
        how = f"on {one.device}" if not there else f"with strides {one.stride()}"
        where = "in CPU memory" if device is None else f"where {device} reads in place"
        message = f"{stage}: expected tables and out contiguous {where}, got {name} {how}"
        raise InputError(message)
