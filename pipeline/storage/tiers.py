"""Rows in tiers: which place has each, and how one GPU reads all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.borrowed import Borrowed
from headrace.ops.errors import HeadraceError, InputError
from headrace.ops.features.gather import empty_rows
from headrace.ops.features.pinned import Pinned
from headrace.ops.features.tiers import GpuTables, TierSizes, gather_tables, locate_and_count, locate_rows
from headrace.ops.gpu import is_readable, resolved, synchronize
from headrace.pipeline.data.arrays import are_each_once, as_ids
from headrace.pipeline.data.place import CPU, PINNED, Place
from headrace.pipeline.partition.router import Located, Router
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.terminal import progress_bar

_PEER = Place("peer")

#: Rows are copied to their places in pieces of about so many bytes.
_PIECE_BYTES = 64 << 20


class TierRouter(Router):
    """Rows by rank (Data Tiering, arXiv 2111.05894): the hottest lie where reading is fastest.

    The first places are the devices, as the one `here` sees them: itself, and its peers. Behind them stand host memory
    and the source of the rows.

    Parameters
    ----------
    rank: int32[num_rows] or int64[num_rows]
        The rank of each row: 0 for the hottest.
    sizes
        How many rows lie where.
    devices
        The devices, in the order in which rows are dealt out to them.
    source
        Where the rows lie that stay.
    here
        The device that reads, by its number among the devices.

    Raises
    ------
    InputError
        If the rank misses a row, there are fewer rows than are placed, or no such device.
    """

    def __init__(
        self,
        rank: ArrayLike | Tensor,
        sizes: TierSizes,
        *,
        devices: Sequence[Place] = (),
        source: Place = CPU,
        here: int = 0,
    ) -> None:
        self.rank = _checked_rank(rank)
        if sizes.num_placed > len(self.rank):
            raise InputError(f"TierRouter: expected at most {len(self.rank)} rows to be placed, got {sizes}")
        if len(devices) != sizes.num_devices or not 0 <= here < max(len(devices), 1):
            raise InputError(
                f"TierRouter: expected the places of {sizes.num_devices} devices, and one of them here, got "
                f"{len(devices)} and number {here}"
            )
        self.sizes = sizes
        self.devices = tuple(devices)
        self.here = here
        self._source = source

    @property
    def places(self) -> tuple[Place, ...]:
        """The devices, host memory, and where rows came from."""
        devices = (place if number == self.here else _PEER for number, place in enumerate(self.devices))
        return (*devices, PINNED if self.devices else CPU, self._source)

    def locate(self, ids: Tensor, *, num_threads: int = 1) -> Located:
        """Return where the rows of ids are; those that stay where they came from go by their ids there.

        Raises
        ------
        InputError
            If an id has no row.
        """
        return Located(*locate_rows(self.rank, ids, self.sizes, here=self.here, num_threads=num_threads))

    def ids_at(self, place: int) -> Tensor:
        """Return the ids of the rows at a place, in their order there; int64[num_rows_there].

        Those that stay where they came from are not listed.
        """
        sizes = self.sizes
        first_of_host = sizes.replicated + sizes.interleaved
        if place == sizes.num_devices:
            return self._hottest[first_of_host : first_of_host + sizes.host]
        own = self._hottest[sizes.replicated + place : first_of_host : max(sizes.num_devices, 1)]
        return torch.cat([self._hottest[: sizes.replicated], own])

    @property
    def _hottest(self) -> Tensor:
        """The ids by rank."""
        ids = torch.empty(len(self.rank), dtype=torch.int64, device="cpu")
        ids[self.rank.long()] = torch.arange(len(self.rank), device="cpu")
        return ids


def _checked_rank(rank: ArrayLike | Tensor) -> Tensor:
    ranks = as_ids(rank, "rank").contiguous()
    num_rows = len(ranks)
    if not are_each_once(ranks):
        raise InputError(
            f"TierRouter: expected a rank from 0 to {num_rows - 1} for each of {num_rows} rows, each once; pass "
            "ranks, such as scores.argsort(descending=True).argsort()"
        )
    return ranks if num_rows > torch.iinfo(torch.int32).max else ranks.to(torch.int32)


def copied_tables(source: FeatureSource, ids: Sequence[Tensor], *, progress: bool) -> list[Tensor]:
    """Return copies of the rows of each list of ids, in CPU memory."""
    tables = [empty_rows((len(one), *source.shape[1:]), source.dtype) for one in ids]
    total = sum(map(len, ids)) * source.row_bytes
    piece = max(_PIECE_BYTES // max(source.row_bytes, 1), 1)
    options = {"desc": "rows to their places", "unit": "B", "unit_scale": True}
    with progress_bar(shown=progress, total=total, **options) as bar:
        for one, table in zip(ids, tables, strict=True):
            for start in range(0, len(one), piece):
                rows, _ = source.read(one[start : start + piece])
                table[start : start + piece] = rows
                bar.update(rows.nbytes)
    return tables


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
    HeadraceError
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
                raise HeadraceError(
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
        InputError
            If an id has no row.
        """
        if self._borrowed.moved():
            self._pin()
        table, row, counts = locate_and_count(self._rank, ids, self._sizes, here=self._here)
        like = self._tables.tensors[0]
        out = empty_rows((len(ids), *like.shape[1:]), like.dtype, self._device)
        return gather_tables(self._tables, table, row, out, trusted=True), counts

    def synchronize(self) -> None:
        """Wait until the device has read all rows that were asked for."""
        synchronize(self._device)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)  # its side streams, too


def as_sizes(sizes: TierSizes | Mapping[str, int]) -> TierSizes:
    """Return the number of rows at each place, of which users may give a dictionary."""
    if isinstance(sizes, TierSizes):
        return sizes
    names = [one.name for one in fields(TierSizes)]
    if not isinstance(sizes, Mapping) or not set(sizes) <= set(names):
        got = f"the keys {list(sizes)}" if isinstance(sizes, Mapping) else type(sizes).__name__
        raise InputError(
            f"TieredFeature: expected sizes to be plan_tiers(...).sizes, or a dictionary of {', '.join(names)}, got "
            f"{got}"
        )
    return TierSizes(**sizes)
