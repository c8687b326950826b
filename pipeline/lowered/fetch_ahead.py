"""Fetching features for batches whose successors are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.feature_names import (
    FeatureName,
    LabelNames,
    as_labels,
    edge_blocks,
    edge_ids_of,
    label_ids_of,
    label_names,
    node_ids_of,
    of_layers,
)
from headrace.pipeline.lowered.fetch_stage import FetchStage
from headrace.pipeline.plan.checks import check_no_labels
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, Runner, WindowRunner, WindowStage
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.reads_ahead import ReadsAhead, reads_ahead


@dataclass(frozen=True, eq=False, repr=False)
class FetchAhead(FetchStage, WindowStage):
    """Fetch features with the next batches in view: rows that several of them want are read once, in few large reads.

    The pass ``lookahead`` makes it from ``fetch_feature`` where rows are on disk, or a look-ahead cache wants to
    know what comes.

    Parameters
    ----------
    store, node, edge, labels
        As for ``fetch_feature``.
    bytes_in_view
        The most that batches in view take, with what is kept for their reads: there are as many as the sources gain
        by, within these, and at least one.
    """

    name: ClassVar[str] = "fetch_ahead"
    lowered: ClassVar[bool] = True
    store: FeatureStore
    node: tuple[FeatureName, ...] = field(default=(), kw_only=True)
    edge: tuple[FeatureName, ...] = field(default=(), kw_only=True)
    labels: LabelNames | None = field(default=None, kw_only=True)
    bytes_in_view: int = field(kw_only=True)

    def runner(self, settings: RunSettings) -> WindowRunner:
        return _Fetches(self, settings.num_threads)

    def again(self, settings: RunSettings) -> Runner:
        return self.fetching_here(settings)


class _Fetches(WindowRunner):
    """The reads of one loader's batches, source by source."""

    def __init__(self, stage: FetchAhead, num_threads: int) -> None:
        self._labels = stage.labels
        store = stage.store
        self._node = {name: reads_ahead(store.node[name], num_threads) for name in stage.node}
        self._edge = {name: reads_ahead(store.edge[name], num_threads) for name in stage.edge}
        self._of_seeds = [reads_ahead(store.node[name], num_threads) for name in label_names(stage.labels)]
        self._every: list[ReadsAhead] = [*self._node.values(), *self._edge.values(), *self._of_seeds]
        self._room = self._bytes_in_view = stage.bytes_in_view

    @property
    def wants_more(self) -> bool:
        return self._room > 0 and any(reads.wants_more for reads in self._every)

    def enter(self, batch: MiniBatch) -> None:
        self._room -= self._bytes_of(batch)
        for name, reads in self._node.items():
            reads.expect(node_ids_of(batch, name).cpu())
        for name, reads in self._edge.items():
            for ids in edge_ids_of(batch, name):
                reads.expect(ids.cpu())
        for reads, ids in zip(self._of_seeds, label_ids_of(batch, self._labels), strict=True):
            reads.expect(ids.cpu())

    def __call__(self, batch: MiniBatch) -> tuple[MiniBatch, Counts]:
        self._room += self._bytes_of(batch)
        counts = {"rows": 0, "bytes": 0}
        fetched: dict[str, Any] = {}

        def read(reads: ReadsAhead) -> Tensor:
            return reads.read(counts).to(batch.n_id.device)

        if self._node:
            fetched["node"] = {**batch.node, **{name: read(reads) for name, reads in self._node.items()}}
        if self._edge:
            per_block = {
                name: of_layers(batch, [read(reads) for _ in edge_blocks(batch)]) for name, reads in self._edge.items()
            }
            fetched["edge"] = {**batch.edge, **per_block}
        if self._of_seeds:
            check_no_labels(batch, self._labels)
            fetched["y"] = as_labels(self._labels, [read(reads) for reads in self._of_seeds])
        return batch.replace(**fetched), counts

    def clear(self) -> None:
        self._room = self._bytes_in_view
        for reads in self._every:
            reads.clear()

    def _bytes_of(self, batch: MiniBatch) -> int:
        """Return about what a batch in view takes: its nodes and edges, and what is kept for its reads."""
        arrays = [batch.n_id]
        for block in batch.blocks:
            arrays += [array for _, array in block.named_tensors()]
        num_bytes = sum(array.nbytes for array in arrays)
        num_bytes += len(batch.n_id) * sum(reads.id_bytes for reads in self._node.values())
        num_edges = sum(block.num_edges for block in edge_blocks(batch))
        return num_bytes + num_edges * sum(reads.id_bytes for reads in self._edge.values())
