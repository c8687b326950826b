"""Fetching node features where they are owned, for rows to be exchanged behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.feature_names import FeatureName, node_ids_of
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.plan.checks import check_node_features, divided_features, watched_features
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, Divided, MapStage, Runner, Stage, Watched
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.rows import read_rows


@dataclass(frozen=True, eq=False, repr=False)
class FetchOwned(MapStage):
    """Read node features of the nodes that this rank owns, between an exchange of ids and one of rows.

    The passes ``cooperative`` and ``fetch_at_owners`` make it from ``fetch_feature``.

    Parameters
    ----------
    store
        Where the features are.
    node
        Names of node features.
    """

    name: ClassVar[str] = "fetch_owned"
    lowered: ClassVar[bool] = True
    reads_at: ClassVar[Place | None] = CPU

    store: FeatureStore
    node: tuple[FeatureName, ...]

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "exchanges"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"node"})

    @property
    def fetches(self) -> frozenset[tuple[str, FeatureName]]:
        return frozenset(("node", name) for name in self.node)

    def decisive(self) -> dict[str, Any]:
        return {"node": {name: self.store.node[name] for name in self.node}}

    def divided(self) -> tuple[Divided, ...]:
        return divided_features(self.store, self.node)

    def watched(self) -> tuple[Watched, ...]:
        return watched_features(self.store, self.node)

    def check(self, before: tuple[Stage, ...]) -> None:
        check_node_features(self.store, self.node, before)

    def runner(self, settings: RunSettings) -> Runner:
        threads = settings.num_threads

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            counts = {"rows": 0, "bytes": 0}
            read = {
                name: read_rows(self.store.node[name], node_ids_of(batch, name), counts, num_threads=threads)
                for name in self.node
            }
            return batch.replace(node={**batch.node, **read}), counts

        return run
