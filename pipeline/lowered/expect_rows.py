"""Telling sources which rows the next batches will read."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from headrace.pipeline.data import MiniBatch, Place
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, Runner, WindowRunner, WindowStage
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.reads_ahead import gains_by_expecting
from headrace.pipeline.storage.rows_on_gpu import READS_IN_VIEW
from headrace.pipeline.storage.wanted import Wanted


@dataclass(frozen=True, eq=False, repr=False)
class ExpectRows(WindowStage):
    """Let batches pass as they are, and tell a fetch behind of the rows that it will read for the next ones.

    The pass ``lookahead`` puts it before a fetch on a GPU whose caches gain by that.

    Parameters
    ----------
    wanted
        Features of which some sources gain by that.
    place
        Where rows are read to.
    bytes_in_view
        The most that batches in view take: there are as many as the sources gain by, within these, and at least one.
    """

    name: ClassVar[str] = "expect_rows"
    lowered: ClassVar[bool] = True
    changes_batches: ClassVar[bool] = False

    wanted: Wanted
    place: Place
    bytes_in_view: int = field(kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        return self.wanted.reads

    def runner(self, settings: RunSettings) -> WindowRunner:
        del settings
        return _Expectations(self)

    def again(self, settings: RunSettings) -> Runner:
        del settings
        return lambda batch: (batch, {})


class _Expected:
    """The reads from one source for batches in view."""

    def __init__(self, source: FeatureSource) -> None:
        self._source = source
        self.num_reads = self.num_rows = 0

    @property
    def wants_more(self) -> bool:
        return self.num_reads < READS_IN_VIEW and self.num_rows < self._source.foresight

    def enter(self, reads: Sequence[Tensor]) -> None:
        for ids in reads:
            self._source.expect(ids)
        self.num_reads += len(reads)
        self.num_rows += sum(map(len, reads))

    def leave(self, num_reads: int, num_rows: int) -> None:
        self.num_reads -= num_reads
        self.num_rows -= num_rows

    def clear(self) -> None:
        self.num_reads = self.num_rows = 0
        self._source.expect_nothing()


class _Expectations(WindowRunner):
    """The reads for one loader's batches, source by source in the order in which each is asked."""

    def __init__(self, stage: ExpectRows) -> None:
        self._wanted = stage.wanted
        sources = stage.wanted.sources()
        self._each = [_Expected(source) if gains_by_expecting(source, stage.place) else None for source in sources]
        self._all = [one for one in self._each if one is not None]
        self._room = self._bytes_in_view = stage.bytes_in_view
        self._in_view = deque[tuple[int, list[_Reads]]]()

    @property
    def wants_more(self) -> bool:
        return self._room > 0 and any(one.wants_more for one in self._all)

    def enter(self, batch: MiniBatch) -> None:
        num_bytes, ids = batch.num_bytes, self._wanted.ids(batch)
        reads = [(one, some) for one, some in zip(self._each, ids, strict=True) if one is not None]
        for one, some in reads:
            one.enter(some)
        self._room -= num_bytes
        self._in_view.append((num_bytes, [(one, len(some), sum(map(len, some))) for one, some in reads]))

    def __call__(self, batch: MiniBatch) -> tuple[MiniBatch, Counts]:
        num_bytes, reads = self._in_view.popleft()
        self._room += num_bytes
        for one, num_reads, num_rows in reads:
            one.leave(num_reads, num_rows)
        return batch, {}

    def clear(self) -> None:
        self._room = self._bytes_in_view
        self._in_view.clear()
        for one in self._all:
            one.clear()


#: What is expected of a source, and of one batch its reads and their rows.
_Reads = tuple[_Expected, int, int]
