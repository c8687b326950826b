"""A cache on a GPU in front of a feature source."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.cache.set_index import SLOT_BYTES
from headrace.ops.errors import DeviceError, FeatureError
from headrace.ops.gpu import device_of, gpu_at
from headrace.ops.memory_promises import Promise
from headrace.pipeline.data.arrays import shown
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.data.shared_memory import ProcessLock
from headrace.pipeline.storage.cached_feature import CachedFeature, capacity_of
from headrace.pipeline.storage.expected_reads import ExpectedReads
from headrace.pipeline.storage.feature_source import FeatureSource, SourceLike
from headrace.pipeline.storage.features import as_source
from headrace.pipeline.storage.rows import Rows, add_counts, check_to, checked_read
from headrace.pipeline.storage.rows_on_gpu import RowsOnGpu


class GpuCachedFeature(CachedFeature):
    """A cache on a GPU. The name of before for ``hr.CachedFeature(source, place="cuda")``, which is the same.

    The GPU itself finds rows and chooses which ones to keep (`ops.cache.set_index.SetIndex`), and the processor does
    not wait for it: by Belady's rule within the reads that it was told of by `expect`, and behind them the most
    recently used ones. Missing rows are read over the bus where the source lies in memory of the host; other sources
    are read by the processor, which waits to learn which ones. Reads to CPU memory go past the cache. A source of which
    all rows have room is kept as a whole, once they have been asked for.

    What was hit is known when the GPU has come so far: the counts of a read are those of earlier reads as well, and
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
        What holds all rows: a `FeatureSource`, or an array.
    rows, bytes
        How many rows the cache holds at most, or how many bytes it takes, its rows and 24 more for each. Give one of
        the two. Where the GPU has less room the cache is smaller, which a warning says.
    place
        The GPU; ``"cuda"`` is any that reads are wanted at, each with a cache of its own.

    Raises
    ------
    FeatureError
        If there is not one size, it holds no row, or the place is no GPU; for a policy, `ids` and `scores`.
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
            raise FeatureError(
                f"CachedFeature: expected place to be a GPU, such as 'cuda:0', or 'cpu', got {self._cache_place}"
            )
        for name, value in (("policy", policy), ("ids", ids), ("scores", scores)):
            if value is not None:
                raise FeatureError(
                    f"CachedFeature: expected no {name} for a cache on {self._cache_place}, which has a policy of its "
                    f"own, got {value!r}; leave it out"
                )
        self._source = as_source(source)
        self._capacity = capacity_of(self._source, rows, bytes, bytes_per_row(self._source))
        self._reading = ProcessLock()
        self._seen = self.version  # of the rows of which copies are kept
        self._kept: dict[tuple[int, torch.device], RowsOnGpu] = {}  # by process: a forked one begins empty
        num_bytes = self._capacity * bytes_per_row(self._source)
        number = self._cache_place.index or 0
        self._promise = Promise(num_bytes, partial(_held_bytes, self._kept, num_bytes), place=number)
        self._in_place = False
        self._expected = ExpectedReads()

    @property
    def cache_place(self) -> Place:
        """The GPU that rows are kept on."""
        return self._cache_place

    @property
    def place(self) -> Place:
        """Where all rows are."""
        return self._source.place

    @property
    def capacity(self) -> int:
        """Rows that the cache holds at most."""
        return self._capacity

    @property
    def policy(self) -> str:
        """Which row makes room: that of the farthest next use, as far as reads are expected."""
        return "look-ahead"

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return the rows of `ids`, [num_ids, ...], and counts.

        On a GPU nobody looks whether ids have rows.

        Raises
        ------
        FeatureError
            For a place that it does not read to, ids that are on another GPU, and as the source does.
        """
        if to == CPU:
            return checked_read(self._source, ids, num_threads=num_threads)
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
            return checked_read(self._source, missing, num_threads=num_threads)

        with self._reading.held():
            self._forget_written()
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
        """Whether rows can be read right to a place: CPU memory, or the GPU that keeps rows."""
        here = self._cache_place
        return place == CPU or (place.kind == here.kind and (None in (place.index, here.index) or place == here))

    def foresees(self, place: Place) -> bool:
        """Whether reads to a place gain by what is expected."""
        return place != CPU and self.reads_to(place)

    def prepare(self, place: Place) -> None:
        """Make ready to read to a place: make the cache on a GPU, and pin the source in memory of the host.

        If that cannot be pinned, missing rows are read by the processor, which a warning says.

        Raises
        ------
        DeviceError
            If the GPU cannot be used.
        """
        if place == CPU:
            return
        device = gpu_at(str(self._cache_place if place.index is None else place))
        with self._reading.held():
            if (os.getpid(), device) in self._kept:
                return
            self._in_place = self._pin_source(place)
            made = RowsOnGpu(self.num_rows, self.shape[1:], self.dtype, self._capacity, device)
            self._kept[os.getpid(), device] = made

    def _pin_source(self, place: Place) -> bool:
        """Let the GPU read the source in place, and return whether it can."""
        if self._source.rows_in_place is None or not self._source.reads_to(place):
            return False
        try:
            self._source.prepare(place)
        except DeviceError as error:
            warnings.warn(
                f"CachedFeature: missing rows are read by the CPU and copied, as {error}", UserWarning, stacklevel=3
            )
            return False
        return True

    def read_into(
        self, ids: Tensor, out: Tensor, *, places: Tensor | None = None, num_threads: int = 1
    ) -> Mapping[str, int]:
        """Write the rows of `ids` to the rows `places` of `out`, in CPU memory, past the cache; see `FeatureSource`.

        Raises
        ------
        FeatureError
            As the source does.
        """
        return self._source.read_into(ids, out, places=places, num_threads=num_threads)

    def update(self, ids: Tensor, rows: Tensor) -> None:
        """Change rows in the source, and keep none of those that were read so far.

        Parameters
        ----------
        ids: int32[n] or int64[n]
            Which rows, each once.
        rows: [n, ...]
            What they are from now on.

        Raises
        ------
        FeatureError
            If the source has no `update`, and as that does.
        """
        with self._reading.held():
            for kept in self._here():
                kept.wait()  # kernels may yet read the rows that are changed
            try:
                self._source.update(ids, rows)
            finally:
                self._seen = self.version
                for kept in self._here():
                    kept.forget()

    def _forget_written(self) -> None:
        """Keep none of the rows that were read so far, if somebody has written to the source past `update`."""
        version = self.version
        if version != self._seen:
            self._seen = version
            for kept in self._here():
                kept.forget()

    def expect(self, ids: Tensor) -> None:
        """Say which ids a `read` to the GPU to come will ask for, after those that were said before.

        A read of as many ids takes the oldest such expectation off the list. Before `prepare` nothing is expected.
        """
        device = next((device for process, device in reversed(self._kept) if process == os.getpid()), None)
        if device is not None:
            self._expected.add(ids, device)

    def expect_nothing(self) -> None:
        """Forget the reads to come: an iteration has ended."""
        self._expected.clear()

    def stats(self) -> dict[str, int]:
        """Return what all reads to GPUs together have counted, without the source's part; the host waits for them.

        ``evictions`` are rows that made room, ``bypasses`` rows that were read past the cache; ``expected`` is how many
        reads are expected now.
        """
        counts = {"hits": 0, "misses": 0, "evictions": 0, "bypasses": 0}
        with self._reading.held():
            for kept in self._here():
                add_counts(counts, kept.counts())
        return {**counts, "bytes_from_cache": counts["hits"] * self.row_bytes, "expected": len(self._expected)}

    def _here(self) -> list[RowsOnGpu]:
        """Return what this process keeps, on each of its GPUs."""
        return [kept for (process, _), kept in self._kept.items() if process == os.getpid()]

    def __reduce__(self) -> tuple[Any, ...]:
        # What is kept stays behind: a copy begins empty.
        return _make, (self.source, self._capacity, self._cache_place)

    def __repr__(self) -> str:
        return f"CachedFeature({shown(self.source)}, rows={self._capacity}, place={str(self._cache_place)!r})"


def bytes_per_row(source: FeatureSource) -> int:
    """Return what a row of a cache on a GPU takes, with what finds it."""
    return source.row_bytes + SLOT_BYTES


def _held_bytes(kept: Mapping[tuple[int, torch.device], RowsOnGpu], num_bytes: int) -> int:
    """Return how much of what a cache may take it has taken: all at once."""
    return num_bytes if any(process == os.getpid() for process, _ in kept) else 0


def _make(source: FeatureSource, rows: int, place: Place) -> GpuCachedFeature:
    return GpuCachedFeature(source, rows=rows, place=place)
