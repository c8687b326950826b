"""Clusters in the order of one of torch's samplers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from headrace.ops.errors import ItemsError
from headrace.pipeline.compat.pyg.torch_samplers import NamedBatches
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.source import BatchSource
from headrace.pipeline.plan.stage import RunSettings
from headrace.pipeline.stages.cluster_sampler import ClusterSampler


@dataclass(frozen=True, eq=False, repr=False)
class TorchClusters(ClusterSampler):
    """Let each batch be the clusters that a batch sampler of torch names, as `TorchSampler` does with items.

    The clusters are ranges of the nodes. One that is named twice in a batch is there once.

    Parameters
    ----------
    batches
        Yields a list of clusters for each batch.
    """

    name: ClassVar[str] = "torch_clusters"

    batches: Iterable[Any] = field(default=(), kw_only=True)

    def decisive(self) -> dict[str, Any]:
        """Return the clusters, the seed and the kind of sampler."""
        return {**super().decisive(), "batches": type(self.batches)}

    def source(self, settings: RunSettings) -> BatchSource:
        """Return what draws the batches."""
        del settings
        return _NamedClusters(self)


class _NamedClusters(NamedBatches):
    """Draws the batches of :class:`TorchClusters`."""

    def __init__(self, stage: TorchClusters) -> None:
        super().__init__(stage.batches, stage.seed)
        self._ends = np.concatenate([[0], np.cumsum(stage.partition.sizes)])

    def named(self, positions: np.ndarray[Any, np.dtype[np.int64]], epoch: int, index: int) -> MiniBatch:
        count = len(self._ends) - 1
        if len(positions) and not 0 <= positions.min() <= positions.max() < count:
            raise ItemsError(
                f"ClusterLoader: expected the sampler to name clusters in [0, {count}), got {positions.tolist()[:9]}; "
                "make it of the ClusterData"
            )
        clusters = list(dict.fromkeys(positions.tolist()))
        ranges = [np.arange(self._ends[one], self._ends[one + 1]) for one in clusters]
        seeds = torch.from_numpy(np.concatenate([np.empty(0, dtype=np.int64), *ranges]))
        return MiniBatch.of_seeds(seeds, epoch=epoch, index=index, item_index=seeds, num_global_seeds=len(seeds))
