"""Reading from a source whose next reads are known: rows that several of them want are read once.

Rows on disk are read by windows of batches: each distinct row of a window once, in the order of the file, so that rows
near each other are one read. While the batches of a window leave, the next window is gathered, and then read in pieces,
one for each batch that leaves, by the thread that asks for it. Rows that both want are copied: those that most batches
want stay in memory.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque

import torch
from torch import Tensor

from headrace.ops.features.gather import empty_rows, gather_rows
from headrace.ops.sampling.compact import unique_and_inverse
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.rows import add_counts, place_rows, read_rows

#: About what a look-ahead cache keeps of each id that it expects.
EXPECTED_BYTES = 30

#: What a window keeps of each id of its reads: the id, and where its row is in the window.
WANTED_BYTES = 16


class ReadsAhead(ABC):
    """Reads from one source, in the order in which they are expected."""

    @abstractmethod
    def expect(self, ids: Tensor) -> int:
        """Expect a read, int64[num_ids], behind those that were expected before; return the bytes that it takes."""

    @abstractmethod
    def end_window(self) -> None:
        """Read what is expected by now together, if that saves reads."""

    @abstractmethod
    def read(self, totals: dict[str, int]) -> Tensor:
        """Return the rows of the oldest read that is expected, [num_ids, ...], and add what was counted to totals."""

    @abstractmethod
    def clear(self) -> None:
        """Forget the reads that are expected."""

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

    def expect(self, ids: Tensor) -> int:
        self._ids.append(ids)
        self._num_ids += len(ids)
        if not self._gains:
            return 0
        self._source.expect(ids)
        return EXPECTED_BYTES * len(ids)

    def end_window(self) -> None:
        return  # the source decides by itself

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
    def wants_more(self) -> bool:
        return self._gains and self._num_ids < self._source.foresight


class WindowReads(ReadsAhead):
    """Reads by windows, and each row of a window once: for rows on disk.

    There are two windows: one whose rows are in memory, and the next one.
    """

    def __init__(self, source: FeatureSource, num_threads: int) -> None:
        self._source = source
        self._num_threads = num_threads
        self._is_wanted: Tensor | None = None  # by the window that is gathered, bool[num_rows]
        self._gathered: list[Tensor] = []
        self._windows: deque[_Window] = deque()
        self._last: _Window | None = None  # the last window, where the next one has not copied its rows
        self._spare: Tensor | None = None  # memory of a window whose rows nobody needs

    def expect(self, ids: Tensor) -> int:
        if self._is_wanted is None:
            self._is_wanted = torch.zeros(self._source.num_rows, dtype=torch.bool, device="cpu")
        self._gathered.append(ids)
        there = ids[(ids >= 0) & (ids < len(self._is_wanted))]  # the source refuses others, at their turn
        num_known = int(self._is_wanted[there].count_nonzero())
        self._is_wanted[there] = True
        return (len(there) - num_known) * self._source.row_bytes + len(ids) * WANTED_BYTES

    def end_window(self) -> None:
        if self._is_wanted is not None and self._gathered:
            self._windows.append(_Window(self._source, self._gathered, self._spare))
            self._gathered, self._spare = [], None
            self._is_wanted.zero_()

    def read(self, totals: dict[str, int]) -> Tensor:
        window = self._windows[0]
        if self._last is not None:
            window.carry(self._last, self._num_threads)
            self._spare, self._last = self._last.memory, None
        window.read(window.num_missing, totals, self._num_threads)
        rows = window.next_rows(self._num_threads)
        add_counts(totals, {"rows": rows.shape[0], "bytes": rows.nbytes})
        if len(self._windows) > 1:
            self._windows[1].read_ahead(window, totals, self._num_threads)
        if not window.num_reads:
            self._windows.popleft()
            if self._windows:
                self._spare = window.memory
            else:
                self._last = window
        return rows

    def clear(self) -> None:
        self._gathered = []
        self._windows.clear()
        self._last = self._spare = None
        if self._is_wanted is not None:
            self._is_wanted.zero_()

    @property
    def wants_more(self) -> bool:
        return len(self._windows) < 2


class _Window:
    """Reads that are made together: their distinct rows, as far as these were read, and which of them each wants.

    Parameters
    ----------
    source
        The source.
    reads
        The ids of each.
    memory
        Memory for rows that nobody uses any more, [n, ...]; None, or too little of it: there will be other.
    """

    def __init__(self, source: FeatureSource, reads: list[Tensor], memory: Tensor | None) -> None:
        self._source = source
        self._reads = deque(reads)
        self.memory = memory
        self._begin()

    def _begin(self) -> None:
        """Find what the reads that are left want; nothing of it is read yet."""
        self._version = self._source.version
        self._num_read, self._failed, self._carried = 0, False, False
        distinct, wanted = unique_and_inverse(torch.cat(tuple(self._reads)).long())
        order = self._source.reading_order(distinct)
        self._distinct = distinct[order]
        place = torch.empty_like(order)
        place[order] = self._missing = torch.arange(len(order), device="cpu")
        self._wanted = deque(torch.split(place[wanted], [len(ids) for ids in self._reads]))

    @property
    def num_reads(self) -> int:
        """How many reads are left."""
        return len(self._reads)

    @property
    def num_missing(self) -> int:
        """How many rows the reads want that come from the source."""
        return len(self._missing)

    def next_rows(self, num_threads: int) -> Tensor:
        """Return the rows of the oldest read that is left; all were read."""
        self._reads.popleft()
        return gather_rows(self._room(), self._wanted.popleft(), num_threads=num_threads)

    def read_ahead(self, before: _Window, totals: dict[str, int], num_threads: int) -> None:
        """Read a part of the rows that are left to read, while another window is served, and all behind its last read.

        An error is raised at the turn of this window: batches before it are right.
        """
        if self._failed:
            return
        try:
            self.carry(before, num_threads)
            piece = math.ceil((self.num_missing - self._num_read) / (1 + before.num_reads))
            self.read(self._num_read + piece, totals, num_threads)
        except Exception:  # noqa: BLE001 - see above
            self._failed = True

    def carry(self, before: _Window, num_threads: int) -> None:
        """Copy the rows that a window which was read has as well, before any are read from the source."""
        is_begun = self._carried or self._num_read > 0
        if is_begun or before._version != self._version or before.memory is None:
            return
        num_before = len(before._distinct)
        _, number = unique_and_inverse(torch.cat([before._distinct, self._distinct]))
        is_there = number[num_before:] < num_before
        there = is_there.nonzero().squeeze(1)
        gather_rows(before.memory, number[num_before + there], out=self._room(), places=there, num_threads=num_threads)
        # Only now: without memory nothing was copied.
        self._missing, self._carried = (~is_there).nonzero().squeeze(1), True

    def _room(self) -> Tensor:
        """Return memory for all rows that the reads want."""
        if self.memory is None or len(self.memory) < len(self._distinct):
            self.memory = empty_rows((len(self._distinct), *self._source.shape[1:]), self._source.dtype)
        return self.memory

    def read(self, end: int, totals: dict[str, int], num_threads: int) -> None:
        """Read the first rows of those that are missing; all anew if the source was written to.

        Parameters
        ----------
        end
            How many of them.
        totals
            What is counted is added to these.
        num_threads
            For the source.
        """
        if self._version != self._source.version:
            self._begin()
            end = self.num_missing
        places = self._missing[self._num_read : end]
        if len(places):
            add_counts(totals, {"distinct_rows": len(places)})
            ids = self._distinct[places]
            place_rows(self._source, ids, self._room(), places=places, totals=totals, num_threads=num_threads)
            self._num_read = end


def gains_by_foresight(source: FeatureSource) -> bool:
    """Return whether reads to CPU memory gain by their source knowing the next ones, or being asked for several."""
    return _is_on_disk(source) or gains_by_expecting(source)


def gains_by_expecting(source: FeatureSource, to: Place = CPU) -> bool:
    """Return whether reads to a place gain by their source knowing the next ones."""
    return source.foresight > 0 and source.foresees(to)


def reads_ahead(source: FeatureSource, num_threads: int) -> ReadsAhead:
    """Return how to read from a source whose next reads are known."""
    return WindowReads(source, num_threads) if _is_on_disk(source) else SingleReads(source, num_threads)


def _is_on_disk(source: FeatureSource) -> bool:
    """Return whether rows come from disk: worth reading once for several batches, and copying for each."""
    return source.place.kind == "disk"
