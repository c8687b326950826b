"""Telling sources which rows the next batches will read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.feature_names import (
    FeatureName,
    LabelNames,
    edge_ids_of,
    label_ids_of,
    label_names,
    node_ids_of,
)
from headrace.pipeline.data.place import Place
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, Runner, WindowRunner, WindowStage
from headrace.pipeline.storage.expected_reads import READS_IN_VIEW
from headrace.pipeline.storage.features import ExpectingSource, FeatureSource, FeatureStore
from headrace.pipeline.storage.reads_ahead import gains_by_expecting


@dataclass(frozen=True, eq=False, repr=False)
class ExpectRows(WindowStage):
    """Let batches pass as they are, and tell a fetch behind of the rows that it will read for the next ones.

    The pass ``lookahead`` puts it before a fetch on a GPU whose caches gain by that.

    Parameters
    ----------
    store, node, edge, labels
        As for ``fetch_feature``.
    place
        Where rows are read to.
    bytes_in_view
        The most that batches in view take: there are as many as the sources gain by, within these, and at least one.
    """

    name: ClassVar[str] = "expect_rows"
    lowered: ClassVar[bool] = True
    changes_batches: ClassVar[bool] = False

    store: FeatureStore
    place: Place
    node: tuple[FeatureName, ...] = field(default=(), kw_only=True)
    edge: tuple[FeatureName, ...] = field(default=(), kw_only=True)
    labels: LabelNames | None = field(default=None, kw_only=True)
    bytes_in_view: int = field(kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        fields = {"n_id": self.node, "blocks": self.edge, "seeds": self.labels is not None}
        return frozenset(name for name, wanted in fields.items() if wanted)

    def runner(self, settings: RunSettings) -> WindowRunner:
        del settings
        return _Expectations(self)

    def again(self, settings: RunSettings) -> Runner:
        del settings
        return lambda batch: (batch, {})


class _Expected:
    """The reads from one source for batches in view."""

    def __init__(self, source: ExpectingSource) -> None:
        self._source = source
        self.num_reads = self.num_rows = 0

    @property
    def wants_more(self) -> bool:
        return self.num_reads < READS_IN_VIEW and self.num_rows < self._source.foresight

    def enter(self, reads: list[Tensor]) -> None:
        for ids in reads:
            self._source.expect(ids)
        self.num_reads += len(reads)
        self.num_rows += sum(map(len, reads))

    def leave(self, reads: list[Tensor]) -> None:
        self.num_reads -= len(reads)
        self.num_rows -= sum(map(len, reads))

    def clear(self) -> None:
        self.num_reads = self.num_rows = 0
        self._source.expect_nothing()


class _Expectations(WindowRunner):
    """The reads for one loader's batches, source by source in the order in which each is asked."""

    def __init__(self, stage: ExpectRows) -> None:
        def expected(source: FeatureSource) -> list[_Expected]:
            gains = isinstance(source, ExpectingSource) and gains_by_expecting(source, stage.place)
            return [_Expected(source)] if gains and isinstance(source, ExpectingSource) else []

        self._labels = stage.labels
        self._node = [(name, one) for name in stage.node for one in expected(stage.store.node[name])]
        self._edge = [(name, one) for name in stage.edge for one in expected(stage.store.edge[name])]
        labels = enumerate(label_names(stage.labels))
        self._of_seeds = [(place, one) for place, name in labels for one in expected(stage.store.node[name])]
        self._all = [one for _, one in (*self._node, *self._edge)] + [one for _, one in self._of_seeds]
        self._room = self._bytes_in_view = stage.bytes_in_view

    @property
    def wants_more(self) -> bool:
        return self._room > 0 and any(one.wants_more for one in self._all)

    def enter(self, batch: MiniBatch) -> None:
        self._room -= batch.num_bytes
        for one, reads in self._reads_of(batch):
            one.enter(reads)

    def __call__(self, batch: MiniBatch) -> tuple[MiniBatch, Counts]:
        self._room += batch.num_bytes
        for one, reads in self._reads_of(batch):
            one.leave(reads)
        return batch, {}

    def clear(self) -> None:
        self._room = self._bytes_in_view
        for one in self._all:
            one.clear()

    def _reads_of(self, batch: MiniBatch) -> list[tuple[_Expected, list[Tensor]]]:
        """Return the ids that each source is asked for."""
        of_seeds = label_ids_of(batch, self._labels) if self._of_seeds else ()
        return [
            *((one, [node_ids_of(batch, name)]) for name, one in self._node),
            *((one, list(edge_ids_of(batch, name))) for name, one in self._edge),
            *((one, [of_seeds[place]]) for place, one in self._of_seeds),
        ]
