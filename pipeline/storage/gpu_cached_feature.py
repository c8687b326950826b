"""A cache on a GPU in front of a feature source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.cache.set_index import SLOT_BYTES
from headrace.ops.errors import HeadraceError, InputError
from headrace.ops.forks import ProcessLock
from headrace.ops.gpu import device_of, gpu_at
from headrace.ops.memory_promises import Promise
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data import CPU, Place, shown
from headrace.pipeline.storage.cached_feature import CachedFeature, capacity_of
from headrace.pipeline.storage.feature_source import FeatureSource, SourceLike
from headrace.pipeline.storage.features import as_source
from headrace.pipeline.storage.over_source import CopiedRows
from headrace.pipeline.storage.rows import Rows, add_counts, check_to, read_to
from headrace.pipeline.storage.rows_on_gpu import ExpectedReads, RowsOnGpu
from headrace.pipeline.storage.whole_on_gpu import WholeOnGpu


class GpuCachedFeature(CachedFeature):
    """A cache on a GPU, which ``hr.CachedFeature(source, place="cuda")`` makes.

    The GPU itself finds rows and chooses the rows to keep (`ops.cache.set_index.SetIndex`), without a wait of the host.
    It follows Belady's rule within the reads announced by `expect`, and then keeps the most recently used rows. If the
    source is in host memory, the GPU reads missing rows over the bus. Other sources are read by the host, which waits
    for the ids of missing rows. Reads to CPU memory bypass the cache. If all rows fit, the first read copies all of
    them, and reads are plain gathers then: a row takes no memory beyond its own, and nothing is looked up.

    Hits are known only after the GPU has finished a read: the counts of a read may include those of earlier reads, and
    `stats` waits and has all.

    >>> import torch
    >>> import headrace as hr
    >>> cached = hr.CachedFeature(torch.eye(4), rows=2, place="cuda")
    >>> cached.capacity, cached.reads_to(hr.Place("cuda"))
    (2, True)
    >>> cached.read(torch.tensor([3, 1])).counts
    {'bytes_from_cpu': 32}

    Parameters
    ----------
    source
        The source of all rows: a `FeatureSource`, or an array.
    rows, bytes
        The largest number of rows in the cache, or its size in bytes: the rows, and 24 bytes more for each unless all
        fit. Give one of the two. If the GPU has less room, the cache is smaller, with a warning.
    place
        The GPU; ``"cuda"`` means every GPU that reads, each with its own cache. A loader on a machine without it is
        refused; a plan for another machine can have it.

    Raises
    ------
    InputError
        If not exactly one size is given, it holds no row, or the place is not a GPU; for a policy, `ids` and `scores`.
    """

    def __init__(
        self,
        source: SourceLike | ArrayLike | Tensor,
        policy: None = None,
        *,
        rows: int | None = None,
        bytes: int | None = None,  # noqa: A002 - the name of a budget everywhere
        place: Place | str = "cuda",
        ids: None = None,
        scores: None = None,
    ) -> None:
        self._cache_place = place if isinstance(place, Place) else Place.parse(place)
        if self._cache_place.kind != "cuda":
            raise InputError(
                f"CachedFeature: expected place to be a GPU, such as 'cuda:0', or 'cpu', got {self._cache_place}"
            )
        for name, value in (("policy", policy), ("ids", ids), ("scores", scores)):
            if value is not None:
                raise InputError(
                    f"CachedFeature: expected no {name} for a cache on {self._cache_place}, which has a policy of its "
                    f"own, got {value!r}; leave it out"
                )
        self._source = as_source(source)
        self._capacity = capacity_of(self._source, rows, bytes, bytes_per_row(self._source))
        if bytes is not None and bytes >= self._source.num_rows * self._source.row_bytes:
            self._capacity = self._source.num_rows  # without a part of the index for each row all fit
        self._reading = ProcessLock()
        self._seen = self.version  # of the rows of which copies are kept
        self._copied = CopiedRows(self._source)
        # By process: a forked one begins empty.
        self._kept: dict[tuple[int, torch.device], RowsOnGpu | WholeOnGpu] = {}
        num_bytes = self._capacity * (self.row_bytes if self._is_whole else bytes_per_row(self._source))
        number = self._cache_place.index or 0
        self._promise = Promise(num_bytes, partial(_held_bytes, self._kept, num_bytes), place=number)
        self._in_place = False
        self._expected = ExpectedReads()

    @property
    def cache_place(self) -> Place:
        """The GPU with the cache."""
        return self._cache_place

    @property
    def place(self) -> Place:
        """The place of all rows."""
        return self._source.place

    @property
    def capacity(self) -> int:
        """Rows that the cache holds at most."""
        return self._capacity

    @property
    def policy(self) -> str:
        """Which row makes room: that of the farthest next use, as far as reads are expected; none, if all rows fit."""
        return "all rows" if self._is_whole else "look-ahead"

    @property
    def _is_whole(self) -> bool:
        return self._capacity == self.num_rows

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return the rows of `ids`, [num_ids, ...], and counts.

        On a GPU, ids are not bounds-checked.

        Raises
        ------
        InputError
            For a place to which it does not read, ids on another GPU, and as for the source.
        """
        if to is CPU or (self.reads_to(to) and to == CPU):
            return read_to(self._source, ids, num_threads=num_threads)
        device = device_of(ids)
        if not self.reads_to(to) or device is None:
            check_to(self, to)
        elif device.type == "cuda" and not self.reads_to(Place.parse(device)):
            check_to(self, Place.parse(device))
        kept = self._kept.get((os.getpid(), ids.device))
        if kept is None:
            self.prepare(Place.parse(ids.device) if ids.is_cuda else to)
            return self.read(ids, num_threads=num_threads, to=to)

        def read_source(missing: Tensor) -> Rows:
            return read_to(self._source, missing, num_threads=num_threads)

        with self._reading.held():
            self._forget_written()
            if not self._copied.is_marked:
                self._copied.mark()
            self._expected.take(len(ids))
            array = self._source.rows_in_place if self._in_place else None
            if array is not None:
                self._source.prepare(to)  # pins it anew where torch has moved it
            rows, found = kept.read(ids, self._expected.on(ids.device), read_source if array is None else array)
        counts = dict(found)
        counts["bytes_from_cache"] = counts["hits"] * self.row_bytes
        if array is not None:
            counts["bytes_from_pinned"] = counts["misses"] * self.row_bytes
        return Rows(rows, counts)

    def reads_to(self, place: Place) -> bool:
        """Whether rows can be read directly to a place: CPU memory, or the GPU with the cache."""
        if not isinstance(place, Place):
            check_to(self, place)  # refuses it
        here = self._cache_place
        return place == CPU or (place.kind == here.kind and (None in (place.index, here.index) or place == here))

    def foresees(self, place: Place) -> bool:
        """Whether reads to a place gain by announcements."""
        return place != CPU and self.reads_to(place)

    def prepare(self, place: Place) -> None:
        """Prepare reads to a place: allocate the cache on a GPU, and pin the source in host memory.

        If it cannot be pinned, the host reads missing rows, with a warning.

        Raises
        ------
        HeadraceError
            If the GPU cannot be used.
        """
        if place == CPU:
            return
        device = gpu_at(str(self._cache_place if place.index is None else place))
        with self._reading.held():
            if (os.getpid(), device) in self._kept:
                return
            self._in_place = self._pin_source(place)
            self._kept[os.getpid(), device] = self._keep_on(device)

    def _keep_on(self, device: torch.device) -> RowsOnGpu | WholeOnGpu:
        """Return room on a GPU for all rows, or for those that the cache may hold, or for which there is memory."""
        if self._is_whole:
            with suppress(torch.cuda.OutOfMemoryError):
                return WholeOnGpu(self.num_rows, self.shape[1:], self.dtype, device)
        return RowsOnGpu(self.num_rows, self.shape[1:], self.dtype, self._capacity, device)

    def _pin_source(self, place: Place) -> bool:
        """Let the GPU read the source in place, and return whether it can."""
        if self._source.rows_in_place is None or not self._source.reads_to(place):
            return False
        try:
            self._source.prepare(place)
        except HeadraceError as error:
            warn_user(f"CachedFeature: missing rows are read by the CPU and copied, as {error}")
            return False
        return True

    def read_into(
        self, ids: Tensor, out: Tensor, *, places: Tensor | None = None, num_threads: int = 1
    ) -> Mapping[str, int]:
        """Write the rows of `ids` to the rows `places` of `out`, in CPU memory, past the cache; see `FeatureSource`.

        Raises
        ------
        InputError
            As for the source.
        """
        return self._source.read_into(ids, out, places=places, num_threads=num_threads)

    def update(self, ids: Tensor, rows: Tensor) -> None:
        """Change rows in the source, and drop all cached rows.

        Parameters
        ----------
        ids: int32[n] or int64[n]
            The rows to change, each once.
        rows: [n, ...]
            The new values.

        Raises
        ------
        InputError
            If the source has no `update`, and as for the `update` of the source.
        """
        with self._reading.held():
            for kept in self._here():
                kept.wait()  # kernels may yet read the rows that are changed
            try:
                self._source.update(ids, rows)
            finally:
                self._seen = self.version
                self._forget_all()

    def give_back(self) -> None:
        """Keep none of the rows; their memory stays that of the cache, as kernels know where it is."""
        self._drop_all()

    def _forget_written(self) -> None:
        """Keep none of the rows that were read so far, if somebody has written to the source past `update`."""
        version = self.version
        if version != self._seen:
            self._seen = version
            self._forget_all()

    def _drop_all(self) -> None:
        with self._reading.held():
            self._forget_all()

    def _forget_all(self) -> None:
        """Keep none of the rows on any GPU, where nothing reads."""
        for kept in self._here():
            kept.forget()

    def expect(self, ids: Tensor) -> None:
        """Announce the ids of a coming `read` to the GPU, after the reads announced before.

        A read of the same number of ids removes the oldest such announcement. Before `prepare` announcements are
        ignored.
        """
        device = next((device for process, device in reversed(self._kept) if process == os.getpid()), None)
        if device is not None:
            self._expected.add(ids, device)

    def expect_nothing(self) -> None:
        """Forget the announced reads, because an iteration has ended."""
        self._expected.clear()

    def stats(self) -> dict[str, int]:
        """Return the counts of all reads to GPUs, without those of the source; the host waits for them.

        ``evictions`` counts evicted rows, ``bypasses`` rows that bypassed the cache; ``expected`` is the number of
        announced reads.
        """
        counts = {"hits": 0, "misses": 0, "evictions": 0, "bypasses": 0}
        with self._reading.held():
            for kept in self._here():
                add_counts(counts, kept.counts())
        return {**counts, "bytes_from_cache": counts["hits"] * self.row_bytes, "expected": len(self._expected)}

    def _here(self) -> list[RowsOnGpu | WholeOnGpu]:
        """Return what this process keeps, on each of its GPUs."""
        return [kept for (process, _), kept in self._kept.items() if process == os.getpid()]

    def __reduce__(self) -> tuple[Any, ...]:
        # What is kept stays behind: a copy begins empty.
        return _make, (self.source, self._capacity, self._cache_place)

    def __repr__(self) -> str:
        rows = "all rows" if self._is_whole else f"rows={self._capacity}"
        return f"CachedFeature({shown(self.source)}, {rows}, place={str(self._cache_place)!r})"


def bytes_per_row(source: FeatureSource) -> int:
    """Return the bytes of a row in a cache on a GPU, with its part of the index."""
    return source.row_bytes + SLOT_BYTES


def _held_bytes(kept: Mapping[tuple[int, torch.device], object], num_bytes: int) -> int:
    """Return how much of what a cache may take it has taken: all at once."""
    return num_bytes if any(process == os.getpid() for process, _ in kept) else 0


def _make(source: FeatureSource, rows: int, place: Place) -> GpuCachedFeature:
    return GpuCachedFeature(source, rows=rows, place=place)
