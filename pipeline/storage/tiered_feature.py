"""A feature whose rows lie in several places, the hottest where reading is fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops import InputError, TierSizes, gather_tables
from headrace.ops.features.gather import empty_rows
from headrace.ops.forks import ProcessLock
from headrace.ops.gpu import current_gpu, has_gpu, resolved
from headrace.ops.memory_promises import HOST, Promise
from headrace.pipeline.data import CPU, Place, as_list, check_switches, whole_number
from headrace.pipeline.storage.feature_source import SourceLike
from headrace.pipeline.storage.features import as_source
from headrace.pipeline.storage.over_source import CopiedRows, OverSource
from headrace.pipeline.storage.peers import Peers, content_of, own_device
from headrace.pipeline.storage.rows import Rows, add_counts, check_to, num_ids, read_by_writing
from headrace.pipeline.storage.tiers import TierRouter, TiersOnGpu, as_sizes, copied_tables


class TieredFeature(OverSource):
    """A feature source that copies the hottest rows of another one to faster places (arXiv 2111.05894).

    The rows of rank 0, 1, ... are copied to every device, the next ones are distributed over the devices one by one,
    the next ones are copied to host memory, and the others stay in the source. `hr.plan_tiers` chooses the numbers. One
    router has the place of each row, and one gather reads all rows in memory.

    >>> import torch
    >>> import headrace as hr
    >>> x = torch.arange(10.0).reshape(5, 2)
    >>> scores = torch.tensor([1.0, 9.0, 3.0, 7.0, 5.0])  # how often each row is read
    >>> rank = scores.argsort(descending=True).argsort()  # 1, 3, 4, 2, 0 are the hottest, in this order
    >>> sizes = {"replicated": 1, "interleaved": 2, "num_devices": 2}  # 1 at both devices, 3 at one, 4 at the other
    >>> devices = [hr.Place("cuda", 0), hr.Place("cuda", 1)]
    >>> tiers = hr.TieredFeature(x, rank, sizes, devices=devices, stand_ins=True)  # as if there were two GPUs
    >>> rows, counts = tiers.read(torch.tensor([1, 3, 4, 0]))
    >>> rows.tolist()
    [[2.0, 3.0], [6.0, 7.0], [8.0, 9.0], [0.0, 1.0]]
    >>> counts
    {'bytes_from_cuda': 16, 'bytes_from_peer': 8, 'bytes_from_cpu': 8}

    It replaces the feature in a store, ``hr.FeatureStore(node={"x": tiers})``, as `TierPlan.apply` does.

    Parameters
    ----------
    source
        The source of all rows: a `FeatureSource`, or an array.
    rank: int32[num_rows] or int64[num_rows]
        The rank of each row: 0 for the hottest.
    sizes
        The number of rows at each place: ``plan_tiers(...).sizes``, or a dictionary with some of its fields:
        ``replicated`` rows on each device, ``interleaved`` ones distributed over the devices, those in ``host`` memory,
        and ``num_devices``, all 0 by default.
    devices
        The devices, in the order in which rows are distributed over them.
    here
        The position in `devices` of the device that reads. Rows of the other devices count as those of peers.
    stand_ins
        Whether tables in CPU memory replace those of the devices, for tests, and on machines without a GPU.
    peers
        Whether the devices are those of the ranks of torch.distributed on this machine, one for each rank. Each rank
        copies the rows of its own device and reads those of the others in place, through CUDA IPC. `devices` is then
        the device of this rank alone, by default the current GPU, and `here` is left out. All ranks make the feature
        together, of the same rows, which are copied at once. No rank may end while others read: see `close`.

    Raises
    ------
    InputError
        If the rank lacks a row, more rows are placed than exist, or there are no such devices; with `peers`, without
        torch.distributed, or if ranks differ in rows or sizes.
    HeadraceError
        With `peers`, if the devices do not reach each other's memory, as in expandable segments of torch's allocator.
    PeerError
        With `peers`, if a rank does not come or fails; in reads, if one has ended. It names the rank.
    """

    def __init__(
        self,
        source: SourceLike | ArrayLike | Tensor,
        rank: ArrayLike | Tensor,
        sizes: TierSizes | Mapping[str, int],
        *,
        devices: Sequence[Place] = (),
        here: int = 0,
        stand_ins: bool = False,
        peers: bool = False,
    ) -> None:
        check_switches("TieredFeature", InputError, stand_ins=stand_ins, peers=peers)
        sizes = as_sizes(sizes)
        devices = as_list(devices, "TieredFeature: devices", "places", InputError)
        if not all(isinstance(device, Place) for device in devices):
            raise InputError("TieredFeature: expected devices to be a list of hr.Place, got others among them")
        here = whole_number(here, "TieredFeature: here", 0, InputError)
        devices = [own_device(devices, here)] if peers else devices
        if devices and not stand_ins and not has_gpu():
            raise InputError(
                f"TieredFeature: rows on {', '.join(map(str, devices))} need a GPU, and torch finds none here; pass "
                "stand_ins=True to try it in CPU memory, or place rows in host memory alone"
            )
        source = as_source(source)
        self._source = source
        self._peers = Peers(devices[0], content_of(source, rank, sizes), sizes.num_devices) if peers else None
        if self._peers is not None:
            devices, here = self._peers.devices, self._peers.here
        self._router = TierRouter(rank, sizes, devices=devices, source=source.place, here=here)
        if len(self._router.rank) != source.num_rows:
            raise InputError(
                f"TieredFeature: expected a rank for each of {source.num_rows} rows, got {len(self._router.rank)}"
            )
        self._counters = [f"bytes_from_{place.kind}" for place in self._router.places]
        self._tables: list[Tensor] | None = None
        self._seen: int | None = None  # the version of the rows that were copied
        self._copied = CopiedRows(source)
        self._were_written = False  # past torch's count
        self._filling = ProcessLock()
        self._stand_ins = stand_ins
        self._on_gpu: TiersOnGpu | None = None
        self._is_closed = False
        self._shared: list[Tensor] = []  # with peers, the tables of all devices, each where it is
        self._held = {HOST: 0}  # bytes of the tables, by place
        self._promises = self._promised()
        if peers:
            self.fill()

    @property
    def router(self) -> TierRouter:
        """The place of each row."""
        return self._router

    @property
    def place(self) -> Place:
        """The place of the rows that stay in the source, which passes read; CPU memory if none stays."""
        all_moved = self._router.sizes.num_placed == self.num_rows
        return CPU if all_moved else self._router.places[-1]

    def fill(self, *, progress: bool = False) -> None:
        """Copy rows to their places, unless done before; the first read does so, too."""
        check_switches("TieredFeature.fill", InputError, progress=progress)
        with self._filling.held():
            if self._tables is None and not self._is_closed:
                self._seen = self.version
                self._copied.mark()
                self._tables = self._read_tables(progress)
                self._held[HOST] = sum(table.nbytes for table in self._tables)
                if self._shared and not self._stand_ins:
                    self._held.update({number: self._shared[device].nbytes for device, number in self._numbers()})

    def close(self) -> None:
        """Give back memory that ranks share, with `peers`: all ranks call it, behind their last reads.

        It returns when no rank reads memory of another one any more. Later reads are refused. Without `peers` there is
        nothing to give back.

        Raises
        ------
        PeerError
            If a rank does not come.
        """
        if self._peers is None or self._is_closed:
            return
        self._is_closed = True
        with self._filling.held():
            if self._on_gpu is not None:
                self._on_gpu.synchronize()
            own = self._shared[self._router.here] if self._shared else None  # others read it until all have come
            self._on_gpu, self._tables, self._shared = None, None, []
        self._peers.part()
        del own
        self._promises.clear()

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return the rows of `ids` as [num_ids, ...].

        Raises
        ------
        InputError
            If an id is negative or not below num_rows, or for a place to which it does not read.
        PeerError
            If the rank of a peer has ended.
        """
        self._check_unwritten()
        num_ids(ids, self)  # refuses what is none
        if not isinstance(to, Place):
            check_to(self, to)  # refuses it
        # A thread may have another current device than that of the batch.
        there = Place(to.kind, ids.device.index) if to.index is None and ids.is_cuda else to
        on_gpu = self._on_gpu  # another thread may close
        if to != CPU and on_gpu is not None and self.reads_to(there):
            rows, at = on_gpu.read(ids)
            counts: dict[str, int] = {}
            kinds = (*self._counters[:-1], "bytes_from_pinned")
            for counter, num_rows in zip(kinds, at, strict=True):
                if num_rows:
                    add_counts(counts, {counter: num_rows * self.row_bytes})
            return Rows(rows, counts)
        return read_by_writing(self, ids, num_threads=num_threads, to=to)

    def reads_to(self, place: Place) -> bool:
        """Whether rows can be read directly to a place: CPU memory, or the device that reads, if it reads all tiers."""
        router = self._router
        if not isinstance(place, Place):
            check_to(self, place)  # refuses it
        if place == CPU:
            return True
        here = router.devices[router.here] if router.devices and not self._stand_ins else None
        is_here = here is not None and place.kind == here.kind and _number(place) == _number(here)
        all_moved = router.sizes.num_placed == self.num_rows
        return is_here and (all_moved or (self._source.rows_in_place is not None and self._source.reads_to(place)))

    def prepare(self, place: Place) -> None:
        """Prepare reads to a place: move rows to the devices, and pin them in host memory.

        Later reads to CPU memory take the rows of devices from the source.

        Raises
        ------
        HeadraceError
            If they cannot be pinned.
        """
        if not isinstance(place, Place):
            check_to(self, place)  # refuses it
        if place == CPU:
            return
        if not self._router.devices:
            raise InputError(f"TieredFeature.prepare: expected rows on devices to read them to {place}, got none there")
        self.fill()
        with self._filling.held():
            if self._on_gpu is None and self._tables is not None:
                router = self._router
                rest = self._source.rows_in_place if router.sizes.num_placed < self.num_rows else None
                tables = [*self._shared, *self._tables[len(self._shared) :]]
                self._on_gpu = TiersOnGpu(router.rank, router.sizes, tables, rest, router.devices, router.here)
                if self._peers is not None:
                    return
                moved, kept = self._tables[: len(router.devices)], self._tables[len(router.devices) :]
                self._tables = [*(table[:0].clone() for table in moved), *kept]
                self._held.update({number: moved[device].nbytes for device, number in self._numbers()})
                self._held[HOST] = sum(table.nbytes for table in kept)

    def read_into(
        self, ids: Tensor, out: Tensor, *, places: Tensor | None = None, num_threads: int = 1
    ) -> Mapping[str, int]:
        """Write the rows of `ids` to the rows `places` of `out`; see `FeatureSource`.

        Raises
        ------
        InputError
            As of `read`, for an `out` of another shape or dtype, and for places that it does not have.
        """
        self._check_unwritten()
        tables = self._tables
        if tables is None:
            self.fill()
            return self.read_into(ids, out, places=places, num_threads=num_threads)
        table, row = self._router.locate(ids, num_threads=num_threads)
        at = torch.bincount(table, minlength=len(self._router.places)).tolist()
        counts: dict[str, int] = {}
        for counter, num_rows, held in zip(self._counters[:-1], at[:-1], tables, strict=True):
            if len(held):
                add_counts(counts, {counter: num_rows * self.row_bytes})
        # Those whose table was moved to a device are read from the source, as are those that it alone has.
        elsewhere = [*(len(held) == 0 for held in tables), True]
        num_elsewhere = sum(num_rows for num_rows, away in zip(at, elsewhere, strict=True) if away)
        if not num_elsewhere and not (len(ids) == 0 and self._asks_source(tables)):
            gather_tables(tables, table, row, out, places=places, num_threads=num_threads)
            return counts
        away = torch.tensor(elsewhere, device="cpu")[table.long()]
        targets = torch.arange(len(ids), device="cpu") if places is None else places
        if num_elsewhere < len(ids):
            held_here = ~away
            gather_tables(
                tables, table[held_here], row[held_here], out, places=targets[held_here], num_threads=num_threads
            )
        add_counts(counts, self._read_source(ids[away].long(), out, targets[away], num_threads))
        return counts

    def _check_unwritten(self) -> None:
        """Refuse to read copies of rows that were written since, or in memory that is gone."""
        if self._tables is not None and self.version != self._seen:
            raise _written()
        if self._peers is not None:
            if self._is_closed:
                raise InputError("TieredFeature: expected reads before close(), got one behind it; make it anew")
            self._peers.check()

    def check_copies(self) -> None:
        """Refuse copies of rows that were written since, also past torch's count, as an iteration begins.

        Raises
        ------
        InputError
            If others are in the source.
        """
        super().check_copies()
        self._check_unwritten()
        if self._were_written or self._copied.were_written():
            self._were_written = True
            raise _written()

    def _asks_source(self, tables: Sequence[Tensor]) -> bool:
        """Whether a read may take rows from the source, which then counts a read of nothing as well."""
        sizes = self._router.sizes
        moved = sizes.replicated + sizes.interleaved > 0 and not any(map(len, tables[: sizes.num_devices]))
        return moved or sizes.num_placed < self.num_rows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TieredFeature):
            return NotImplemented
        mine, its = self._router, other._router
        same_places = (mine.sizes, mine.devices, mine.here) == (its.sizes, its.devices, its.here)
        return self is other or (
            same_places and bool(self._source == other._source) and torch.equal(mine.rank, its.rank)
        )

    def __hash__(self) -> int:
        return hash(self.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        # The copied rows stay behind: a copy fills its own places.
        router, peers = self._router, self._peers is not None
        devices, here = ([router.devices[router.here]], 0) if peers else (router.devices, router.here)
        made = partial(TieredFeature, devices=devices, here=here, stand_ins=self._stand_ins, peers=peers)
        return made, (self.source, router.rank, router.sizes)

    def __repr__(self) -> str:
        sizes = self._router.sizes
        at = {"at each device": sizes.replicated, "over devices": sizes.interleaved, "in host memory": sizes.host}
        tiers = ", ".join(f"{count:,} {where}" for where, count in at.items() if count)
        return f"{self.source!r} with {tiers or 'nothing'} in tiers"

    def _promised(self) -> list[Promise]:
        """Promise this memory to the tables: nobody else is given it, though they are filled by the first read."""
        sizes = self._router.sizes
        rows = {HOST: sizes.host}
        for device, number in self._numbers():
            place = HOST if self._stand_ins else number
            rows[place] = rows.get(place, 0) + sizes.replicated + sizes.interleaved_at(device)
        return [
            Promise(count * self.row_bytes, partial(_held_at, self._held, place), place=place)
            for place, count in rows.items()
        ]

    def _numbers(self) -> list[tuple[int, int]]:
        """Return the positions of the devices whose rows this process holds, each with the number of its GPU."""
        router = self._router
        numbers = [
            (device, device if place.index is None else place.index) for device, place in enumerate(router.devices)
        ]
        return numbers if self._peers is None else [numbers[router.here]]

    def _read_tables(self, progress: bool) -> list[Tensor]:
        """Return copies of the rows at the devices and in host memory; with peers those of others are opened."""
        here, peers = self._router.here, self._peers
        ids = [self._router.ids_at(place) for place in range(self._router.sizes.num_devices + 1)]
        if peers is None:
            return copied_tables(self._source, ids, progress=progress)
        on_host: list[Tensor] = []

        def of_this_rank() -> Tensor:
            own, rest = copied_tables(self._source, [ids[here], ids[-1]], progress=progress)
            on_host.append(rest)
            return own

        device = CPU if self._stand_ins else self._router.devices[here]
        shapes = [(len(one), *self.shape[1:]) for one in ids[:-1]]
        self._shared = peers.share(of_this_rank, shapes, resolved(str(device)))
        if self._stand_ins:
            return [*self._shared, *on_host]
        return [*(empty_rows((0, *self.shape[1:]), self.dtype) for _ in self._shared), *on_host]

    def _read_source(self, ids: Tensor, out: Tensor, places: Tensor, num_threads: int) -> Mapping[str, int]:
        """Write rows that stay where they are, and return what their source counts."""
        return self._source.read_into(ids, out, places=places, num_threads=num_threads)


def _written() -> InputError:
    return InputError(
        "TieredFeature: expected rows to stay as they were when they were copied to their places, got a source that "
        "was written since; make the TieredFeature anew, or leave rows that are written out of tiers"
    )


def _number(device: Place) -> int:
    """Return the number of a device, which for one without is that of the current one."""
    return current_gpu() if device.index is None else device.index


def _held_at(held: Mapping[int, int], place: int) -> int:
    return held.get(place, 0)
