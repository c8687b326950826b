"""What all stages that fetch rows of a store share: the fields that they read and write, and the fetch of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.feature_names import (
    FeatureName,
    LabelNames,
    as_labels,
    edge_ids_of,
    label_ids_of,
    label_names,
    node_ids_of,
    of_layers,
)
from headrace.pipeline.plan.checks import check_no_labels, watched_features
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, Runner, Watched
from headrace.pipeline.storage.features import FeatureSource, FeatureStore
from headrace.pipeline.storage.rows import read_rows

#: Returns rows of a source, and adds what it counts.
Read = Callable[[FeatureSource, Tensor, dict[str, int]], Tensor]


class FetchStage(MapStage):
    """Base of these stages; each has the parameters of ``fetch_feature``."""

    keeps_ids_sound: ClassVar[bool] = True

    store: FeatureStore
    node: tuple[FeatureName, ...]
    edge: tuple[FeatureName, ...]
    labels: LabelNames | None

    @property
    def reads(self) -> frozenset[str]:
        fields = {"n_id": self.node, "blocks": self.edge, "seeds": self.labels is not None}
        return frozenset(name for name, wanted in fields.items() if wanted)

    @property
    def writes(self) -> frozenset[str]:
        fields = {"node": self.node, "edge": self.edge, "y": self.labels is not None}
        return frozenset(name for name, wanted in fields.items() if wanted)

    @property
    def fetches(self) -> frozenset[tuple[str, FeatureName]]:
        return frozenset({*(("node", name) for name in self.node), *(("edge", name) for name in self.edge)})

    def watched(self) -> tuple[Watched, ...]:
        return watched_features(self.store, (*self.node, *label_names(self.labels)), self.edge)

    def fetching_here(self, settings: RunSettings) -> Runner:
        """Return the function that fetches for a batch by reading in CPU memory, wherever the batch is."""
        threads = settings.num_threads

        def read(source: FeatureSource, ids: Tensor, counts: dict[str, int]) -> Tensor:
            # Of a batch on a device ids come here, and rows go there.
            if ids.is_cpu:
                return read_rows(source, ids, counts, num_threads=threads)
            return read_rows(source, ids.cpu(), counts, num_threads=threads).to(ids.device)

        return self.fetching(read)

    def fetching(self, read: Read) -> Runner:
        """Return the function that fetches for a batch, by reading each source once for nodes, seeds and each block."""
        node = {name: self.store.node[name] for name in self.node}
        edge = {name: self.store.edge[name] for name in self.edge}
        labels = [self.store.node[name] for name in label_names(self.labels)]

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            counts = {"rows": 0, "bytes": 0}
            fetched: dict[str, Any] = {}
            if node:
                rows = {name: read(source, node_ids_of(batch, name), counts) for name, source in node.items()}
                fetched["node"] = {**batch.node, **rows}
            if edge:
                per_block = {
                    name: of_layers(batch, [read(source, rows, counts) for rows in edge_ids_of(batch, name)])
                    for name, source in edge.items()
                }
                fetched["edge"] = {**batch.edge, **per_block}
            if labels:
                check_no_labels(batch, self.labels)
                of_seeds = label_ids_of(batch, self.labels)
                rows_of_seeds = [read(source, ids, counts) for source, ids in zip(labels, of_seeds, strict=True)]
                fetched["y"] = as_labels(self.labels, rows_of_seeds)
            return batch.replace(**fetched), counts

        return run
