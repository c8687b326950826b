"""Fetching features for batches whose successors are known."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.lowered._fetch_stage import FetchStage, IdsHere, decoded, rows_on
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, Runner, WindowRunner, WindowStage
from headrace.pipeline.storage.reads_ahead import reads_ahead
from headrace.pipeline.storage.wanted import Wanted

#: Batches of a window: more hardly share more rows, and each is sampled before the rows of the first are read.
MOST_BATCHES = 1024


@dataclass(frozen=True, eq=False, repr=False)
class FetchAhead(FetchStage, WindowStage):
    """Fetch features with the next batches in view: rows that several of them want are read once, in few large reads.

    The pass ``lookahead`` makes it from ``fetch_feature`` where rows are on disk, or a look-ahead cache wants to
    know what comes. Rows on disk are read by windows: one holds as many batches as half of the memory has room for.
    The first window of an epoch has few batches, so that the first batch comes soon, and the next ones have more.

    Parameters
    ----------
    wanted
        The features.
    bytes_in_view
        The most that batches in view take, with what is kept for their reads, and the rows of two windows: there are as
        many as the sources gain by, within these, and at least one.
    """

    name: ClassVar[str] = "fetch_ahead"
    lowered: ClassVar[bool] = True
    wanted: Wanted
    bytes_in_view: int = field(kw_only=True)

    def runner(self, settings: RunSettings) -> WindowRunner:
        return _Fetches(self, settings.num_threads)

    def again(self, settings: RunSettings) -> Runner:
        return self.fetching_here(settings)


class _Fetches(WindowRunner):
    """The reads of one loader's batches, source by source."""

    def __init__(self, stage: FetchAhead, num_threads: int) -> None:
        self._wanted, self._decodings = stage.wanted, stage.wanted.decodings()
        self._num_threads = num_threads
        self._each = [reads_ahead(source, num_threads) for source in stage.wanted.sources()]
        self._room = self._bytes_in_view = stage.bytes_in_view
        self._in_view = deque[_InView]()
        self._windows = deque[int]()  # the batches that have not left of each window that has ended
        self._gathered = self._gathered_bytes = 0

    @property
    def wants_more(self) -> bool:
        return self._room > 0 and any(reads.wants_more for reads in self._each)

    def enter(self, batch: MiniBatch) -> None:
        num_bytes = sum(array.nbytes for block in batch.blocks for _, array in block.named_tensors())
        num_bytes += batch.n_id.nbytes
        counts = list[int]()
        here = IdsHere()
        for reads, ids in zip(self._each, self._wanted.ids(batch), strict=True):
            num_bytes += sum(reads.expect(here.of(one)) for one in ids)
            counts.append(len(ids))
        self._room -= num_bytes
        self._in_view.append(_InView(num_bytes, counts))
        self._gathered += 1
        self._gathered_bytes += num_bytes
        if self._gathered_bytes >= self._bytes_in_view // 2 or self._gathered == MOST_BATCHES:
            self._end_window()

    def _end_window(self) -> None:
        for reads in self._each:
            reads.end_window()
        self._windows.append(self._gathered)
        self._gathered = self._gathered_bytes = 0

    def __call__(self, batch: MiniBatch) -> tuple[MiniBatch, Counts]:
        counts = {"rows": 0, "bytes": 0}
        if not self._windows:
            self._end_window()
        num_bytes, num_reads = self._in_view.popleft()
        self._room += num_bytes
        self._windows[0] -= 1
        if not self._windows[0]:
            self._windows.popleft()
        device = batch.n_id.device
        rows = [
            [decoded(rows_on(reads.read(counts), device), decoding, self._num_threads) for _ in range(count)]
            for reads, decoding, count in zip(self._each, self._decodings, num_reads, strict=True)
        ]
        return self._wanted.filled(batch, rows), counts

    def clear(self) -> None:
        self._room = self._bytes_in_view
        self._gathered = self._gathered_bytes = 0
        self._in_view.clear()
        self._windows.clear()
        for reads in self._each:
            reads.clear()


class _InView(NamedTuple):
    """About the bytes that a batch in view takes with what is kept for its reads, and its reads of each source."""

    num_bytes: int
    num_reads: list[int]
