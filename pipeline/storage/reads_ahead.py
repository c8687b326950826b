"""Reading from a source whose next reads are known: rows that several of them want are read once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from itertools import accumulate

import torch
from torch import Tensor

from headrace.ops import gather_rows, unique_and_inverse
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.rows import add_counts, checked_read, read_rows

#: Reads that are made together from disk. A few share most of what can be shared, and each one more is a
#: batch, and its rows, more in memory.
SHARED = 4

#: About what a look-ahead cache keeps of each id that it expects.
EXPECTED_BYTES = 30


class ReadsAhead(ABC):
    """Reads from one source, in the order in which they are expected."""

    @abstractmethod
    def expect(self, ids: Tensor) -> None:
        """Expect a read, int64[num_ids], behind those that were expected before."""

    @abstractmethod
    def read(self, totals: dict[str, int]) -> Tensor:
        """Return the rows of the oldest read that is expected, [num_ids, ...], and add what was counted to totals."""

    @abstractmethod
    def clear(self) -> None:
        """Forget the reads that are expected."""

    @property
    @abstractmethod
    def id_bytes(self) -> int:
        """Bytes that an id of an expected read takes until that read is over."""

    @property
    @abstractmethod
    def wants_more(self) -> bool:
        """Whether something is gained by expecting another read."""


class SingleReads(ReadsAhead):
    """Reads one by one, of which the source learns early if it can make something of that (a look-ahead cache)."""

    def __init__(self, source: FeatureSource, num_threads: int) -> None:
        self._source = source
        self._gains = gains_by_expecting(source)
        self._num_threads = num_threads
        self._ids: deque[Tensor] = deque()
        self._num_ids = 0

    def expect(self, ids: Tensor) -> None:
        self._ids.append(ids)
        self._num_ids += len(ids)
        if self._gains:
            self._source.expect(ids)

    def read(self, totals: dict[str, int]) -> Tensor:
        ids = self._ids.popleft()
        self._num_ids -= len(ids)
        return read_rows(self._source, ids, totals, num_threads=self._num_threads)

    def clear(self) -> None:
        self._ids.clear()
        self._num_ids = 0
        if self._gains:
            self._source.expect_nothing()

    @property
    def id_bytes(self) -> int:
        return EXPECTED_BYTES if self._gains else 0

    @property
    def wants_more(self) -> bool:
        return self._gains and self._num_ids < self._source.foresight


class SharedReads(ReadsAhead):
    """All reads that are expected, at once, and each row of them once: for rows on disk."""

    def __init__(self, source: FeatureSource, num_threads: int) -> None:
        self._source = source
        self._num_threads = num_threads
        self._ids: deque[Tensor] = deque()
        # Distinct rows, which of them a read wants, and the ids that these are.
        self._found: deque[tuple[Tensor, Tensor, Tensor]] = deque()
        self._seen: int | None = None  # the version of those found

    def expect(self, ids: Tensor) -> None:
        self._ids.append(ids)

    def read(self, totals: dict[str, int]) -> Tensor:
        if self._found and self._source.version != self._seen:
            self._ids.extendleft(ids for _, _, ids in reversed(self._found))
            self._found.clear()
        if not self._found:
            self._read_all(totals)
        distinct, wanted, _ = self._found.popleft()
        rows = gather_rows(distinct, wanted, num_threads=self._num_threads)
        add_counts(totals, {"rows": rows.shape[0], "bytes": rows.nbytes})
        return rows

    def clear(self) -> None:
        self._ids.clear()
        self._found.clear()

    @property
    def id_bytes(self) -> int:
        return self._source.row_bytes

    @property
    def wants_more(self) -> bool:
        return len(self._ids) < SHARED

    def _read_all(self, totals: dict[str, int]) -> None:
        ids = list(self._ids)
        self._ids.clear()
        ends = list(accumulate(map(len, ids)))
        self._seen = self._source.version
        distinct, wanted = unique_and_inverse(torch.cat(ids).long())
        rows, counts = checked_read(self._source, distinct, num_threads=self._num_threads)
        add_counts(totals, {"distinct_rows": len(distinct)})
        add_counts(totals, counts)
        starts = [0, *ends[:-1]]
        self._found.extend((rows, wanted[start:end], one) for start, end, one in zip(starts, ends, ids, strict=True))


def gains_by_foresight(source: FeatureSource) -> bool:
    """Return whether reads to CPU memory gain by their source knowing the next ones, or being asked for several."""
    return _is_on_disk(source) or gains_by_expecting(source)


def gains_by_expecting(source: FeatureSource, to: Place = CPU) -> bool:
    """Return whether reads to a place gain by their source knowing the next ones."""
    return source.foresight > 0 and source.foresees(to)


def reads_ahead(source: FeatureSource, num_threads: int) -> ReadsAhead:
    """Return how to read from a source whose next reads are known."""
    return SharedReads(source, num_threads) if _is_on_disk(source) else SingleReads(source, num_threads)


def _is_on_disk(source: FeatureSource) -> bool:
    """Return whether rows come from disk: worth reading once for several batches, and copying for each."""
    return source.place.kind == "disk"
