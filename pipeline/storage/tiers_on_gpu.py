"""Tiers as a GPU reads them: rows of its own memory, of peers and of the host, in one gather."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headrace.ops.features.gather import empty_rows
from headrace.ops.features.pinned import Pinned
from headrace.ops.features.tiers import TierSizes, gather_tables, locate_rows
from headrace.ops.gpu import read_back, resolved
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
        If memory cannot be pinned.
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
        self._device = resolved(str(devices[here]))
        on_devices = [table.to(resolved(str(place))) for table, place in zip(tables, devices, strict=False)]
        on_host = [table for table in (*tables[len(devices) :], rest) if table is not None]
        self._pinned = [Pinned(table) for table in on_host]
        self._tables = [*on_devices, *on_host]
        self._rank = rank.to(self._device)

    def read(self, ids: Tensor) -> tuple[Tensor, list[int]]:
        """Return the rows of ids on the device that reads, and how many of them came from each table.

        Raises
        ------
        FeatureError
            If an id has no row.
        """
        out = empty_rows((len(ids), *self._tables[0].shape[1:]), self._tables[0].dtype, self._device)
        table, row = locate_rows(self._rank, ids, self._sizes, here=self._here)
        gather_tables(self._tables, table, row, out)
        return out, read_back(torch.bincount(table, minlength=self._sizes.num_devices + 2))
