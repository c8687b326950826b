"""Tiers as a GPU reads them: rows of its own memory, of peers and of the host, in one gather."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headrace.ops.borrowed import Borrowed
from headrace.ops.errors import DeviceError
from headrace.ops.features.gather import empty_rows
from headrace.ops.features.pinned import Pinned
from headrace.ops.features.tiers import GpuTables, TierSizes, gather_tables, locate_and_count
from headrace.ops.gpu import is_readable, resolved
from headrace.pipeline.data.place import Place


class TiersOnGpu:
    """The tables of a tiered feature, each where it belongs.

    Parameters
    ----------
    rank: int32[num_rows] or int64[num_rows]
        The rank of each row.
    sizes
        How many rows lie where.
    tables
        Rows in CPU memory: those of each device, and of the host.
    rest
        The rows that stay where they came from, all of them by their ids; None if none stays, or a GPU cannot read
        them there.
    devices
        The devices.
    here
        Which of them reads.

    Raises
    ------
    DeviceError
        If memory cannot be pinned, or the device that reads cannot reach that of another one.
    """

    def __init__(
        self,
        rank: Tensor,
        sizes: TierSizes,
        tables: Sequence[Tensor],
        rest: Tensor | None,
        devices: Sequence[Place],
        here: int,
    ) -> None:
        self._sizes, self._here = sizes, here
        self._device = torch.empty(0, device=resolved(str(devices[here]))).device  # with its index
        on_devices = [table.to(resolved(str(place))) for table, place in zip(tables, devices, strict=False)]
        on_host = [table for table in (*tables[len(devices) :], rest) if table is not None]
        for table in on_devices:
            if not is_readable(table, self._device):
                raise DeviceError(
                    f"TieredFeature: {self._device} cannot read memory of {table.device} in place; place rows on "
                    "devices that reach each other, or on this one alone"
                )
        self._on_devices, self._on_host = on_devices, on_host
        self._pin()
        self._rank = rank.to(self._device)

    def _pin(self) -> None:
        """Let the device read the tables of the host where they are now."""
        self._borrowed = Borrowed(self._on_host)
        self._pinned = [Pinned(table) for table in self._on_host]
        self._tables = GpuTables([*self._on_devices, *self._on_host], self._device)

    def read(self, ids: Tensor) -> tuple[Tensor, list[int]]:
        """Return the rows of ids on the device that reads, and how many of them came from each table.

        The host waits once, until it is known where the rows are; they may still be on their way.

        Raises
        ------
        FeatureError
            If an id has no row.
        """
        if self._borrowed.moved():
            self._pin()
        table, row, counts = locate_and_count(self._rank, ids, self._sizes, here=self._here)
        like = self._tables.tensors[0]
        out = empty_rows((len(ids), *like.shape[1:]), like.dtype, self._device)
        return gather_tables(self._tables, table, row, out, trusted=True), counts
