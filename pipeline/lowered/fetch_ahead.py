"""Fetching features for batches whose successors are known."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.lowered._fetch_stage import FetchStage
from headrace.pipeline.plan.stage import Counts, Runner, RunSettings, WindowRunner, WindowStage
from headrace.pipeline.storage.reads_ahead import reads_ahead
from headrace.pipeline.storage.wanted import Wanted


@dataclass(frozen=True, eq=False, repr=False)
class FetchAhead(FetchStage, WindowStage):
    """Fetch features with the next batches in view: rows that several of them want are read once, in few large reads.

    The pass ``lookahead`` makes it from ``fetch_feature`` where rows are on disk, or a look-ahead cache wants to
    know what comes.

    Parameters
    ----------
    wanted
        The features.
    bytes_in_view
        The most that batches in view take, with what is kept for their reads: there are as many as the sources gain
        by, within these, and at least one.
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
        self._wanted = stage.wanted
        self._each = [reads_ahead(source, num_threads) for source in stage.wanted.sources()]
        self._room = self._bytes_in_view = stage.bytes_in_view
        self._in_view = deque[_InView]()

    @property
    def wants_more(self) -> bool:
        return self._room > 0 and any(reads.wants_more for reads in self._each)

    def enter(self, batch: MiniBatch) -> None:
        num_bytes = sum(array.nbytes for block in batch.blocks for _, array in block.named_tensors())
        num_bytes += batch.n_id.nbytes
        counts = list[int]()
        for reads, ids in zip(self._each, self._wanted.ids(batch), strict=True):
            for one in ids:
                reads.expect(one.cpu())
                num_bytes += reads.id_bytes * len(one)
            counts.append(len(ids))
        self._room -= num_bytes
        self._in_view.append(_InView(num_bytes, counts))

    def __call__(self, batch: MiniBatch) -> tuple[MiniBatch, Counts]:
        num_bytes, num_reads = self._in_view.popleft()
        self._room += num_bytes
        counts = {"rows": 0, "bytes": 0}
        device = batch.n_id.device
        rows = [
            [reads.read(counts).to(device) for _ in range(count)]
            for reads, count in zip(self._each, num_reads, strict=True)
        ]
        return self._wanted.filled(batch, rows), counts

    def clear(self) -> None:
        self._room = self._bytes_in_view
        self._in_view.clear()
        for reads in self._each:
            reads.clear()


class _InView(NamedTuple):
    """About the bytes that a batch in view takes with what is kept for its reads, and its reads of each source."""

    num_bytes: int
    num_reads: list[int]
