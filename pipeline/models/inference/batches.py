"""The batches of a layer: nodes with all their in-edges, and the rows that the layer before has given their sources."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.feature_names import FeatureName
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.models.inference.rows import Rows
from headrace.pipeline.run.loader import Loader
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.storage.features import FeatureStore


@dataclass(frozen=True)
class Batches:
    """How batches are made, which is the same for every layer.

    Parameters
    ----------
    graph
        Whose in-edges are taken.
    store
        Has the features of edges.
    edge
        Their names.
    batch_size
        Destinations in a batch.
    device
        Where layers run.
    num_threads
        Of the loader.
    """

    graph: Graph
    store: FeatureStore
    edge: tuple[FeatureName, ...]
    batch_size: int
    device: torch.device
    num_threads: int | None

    def loader(self, items: Any, rows: Rows) -> Loader:
        """Return the loader of the batches of these nodes, in their order, with the `rows` of their sources."""
        features = rows.features()
        inputs = FeatureStore(node=features, edge={name: self.store.edge[name] for name in self.edge})
        nodes = ItemSampler(items, batch_size=self.batch_size, seed=0)  # nothing is drawn
        plan = nodes.sample_in_subgraph(self.graph).fetch_feature(inputs, node=[*features], edge=self.edge)
        if self.device.type != "cpu":
            plan = plan.copy_to(str(self.device))
        # Whole in this process: under torch.distributed a loader would take a rank's share.
        return plan.loader(num_threads=self.num_threads, rank=0, world_size=1)

    def one(self, nodes: list[int], rows: Rows) -> MiniBatch:
        """Return the batch of a few nodes."""
        with replace(self, batch_size=len(nodes)).loader(nodes, rows) as loader:
            return next(iter(loader))
