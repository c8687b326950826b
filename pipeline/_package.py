"""headrace: composable datapipe dataloading for graph neural networks.

>>> import headrace as hr
>>> graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=3)
>>> loader = hr.ItemSampler(3, batch_size=2).sample_neighbor(graph, fanouts=[2]).loader()
>>> [batch.n_id.tolist() for batch in loader]
[[0, 1, 2], [2, 1]]
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from headrace.ops.errors import (
    DeviceError,
    FeatureError,
    GraphError,
    HeadraceError,
    InputError,
    ItemsError,
    LoaderError,
    PeerError,
    PlanError,
    StateError,
    UsageError,
)
from headrace.ops.features.tiers import TierSizes
from headrace.ops.sampling.rules import LaborImportanceRule, LaborRule, LadiesRule, LatestRule, NeighborRule
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.gcn_norm import gcn_norm
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.place import Place
from headrace.pipeline.data.type_offsets import TypeOffsets
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import BatchSource, SourceStage
from headrace.pipeline.plan.stage import MacroStage, MapStage, Stage
from headrace.pipeline.plan.verbs import verb, verbs
from headrace.pipeline.run import make_loader as _make_loader  # noqa: F401 - it adds a method to plans
from headrace.pipeline.run.stats import Stats
from headrace.pipeline.stages import ClusterSampler, GlobalBatch, ItemSampler, NodeSource
from headrace.pipeline.stages.hop_sampler import HopSampler
from headrace.pipeline.storage.cached_feature import CachedFeature
from headrace.pipeline.storage.cached_store import cached
from headrace.pipeline.storage.disk_feature import DiskFeature
from headrace.pipeline.storage.features import ExpectingSource, FeatureSource, FeatureStore, PlacingSource
from headrace.pipeline.storage.gpu_cached_feature import GpuCachedFeature
from headrace.pipeline.storage.rows import Rows
from headrace.pipeline.version import VERSION as _VERSION

if _TYPE_CHECKING:
    from headrace.pipeline import scores
    from headrace.pipeline.distributed.channel import Comm
    from headrace.pipeline.distributed.comm import sum_hook
    from headrace.pipeline.distributed.local_comm import LocalGroup
    from headrace.pipeline.models import nn, sar
    from headrace.pipeline.models.cooperative import cooperative, sum_gradients
    from headrace.pipeline.models.inference import inference
    from headrace.pipeline.partition.edge_partition import EdgePartition
    from headrace.pipeline.partition.partition import Partition
    from headrace.pipeline.partition.report import PartitionReport
    from headrace.pipeline.run.loader import Loader
    from headrace.pipeline.storage.load_shards import Shards, load_shards
    from headrace.pipeline.storage.plan_tiers import TierPlan, plan_tiers
    from headrace.pipeline.storage.reordering import Reordered, reorder
    from headrace.pipeline.storage.sharded_feature import ShardedFeature
    from headrace.pipeline.storage.tiered_feature import TieredFeature
    from headrace.pipeline.storage.write_shards import write_shards

__version__ = _VERSION

__all__ = [
    "BatchSource",
    "Block",
    "CachedFeature",
    "ClusterSampler",
    "Comm",
    "DeviceError",
    "DiskFeature",
    "EdgePartition",
    "ExpectingSource",
    "FeatureError",
    "FeatureSource",
    "FeatureStore",
    "GlobalBatch",
    "GpuCachedFeature",
    "Graph",
    "GraphError",
    "HeadraceError",
    "HopSampler",
    "InputError",
    "ItemSampler",
    "ItemsError",
    "LaborImportanceRule",
    "LaborRule",
    "LadiesRule",
    "LatestRule",
    "Loader",
    "LoaderError",
    "LocalGroup",
    "Machine",
    "MacroStage",
    "MapStage",
    "MiniBatch",
    "NeighborRule",
    "NodeSource",
    "Partition",
    "PartitionReport",
    "PeerError",
    "Place",
    "PlacingSource",
    "Plan",
    "PlanError",
    "Reordered",
    "Rows",
    "RunSettings",
    "ShardedFeature",
    "Shards",
    "SourceStage",
    "Stage",
    "StateError",
    "Stats",
    "TierPlan",
    "TierSizes",
    "TieredFeature",
    "TypeOffsets",
    "UsageError",
    "__version__",
    "cached",
    "cooperative",
    "gcn_norm",
    "inference",
    "load_shards",
    "nn",
    "plan_tiers",
    "reorder",
    "sar",
    "scores",
    "sum_gradients",
    "sum_hook",
    "verb",
    "verbs",
    "write_shards",
]


# Loaded when asked for the first time, so that importing headrace stays cheap: what runs plans, and what several ranks
# need.
_LATER = {
    "Comm": "distributed.channel",
    "EdgePartition": "partition.edge_partition",
    "Loader": "run.loader",
    "LocalGroup": "distributed.local_comm",
    "Partition": "partition.partition",
    "PartitionReport": "partition.report",
    "Reordered": "storage.reordering",
    "ShardedFeature": "storage.sharded_feature",
    "Shards": "storage.load_shards",
    "TierPlan": "storage.plan_tiers",
    "TieredFeature": "storage.tiered_feature",
    "cooperative": "models.cooperative",
    "inference": "models.inference",
    "load_shards": "storage.load_shards",
    "plan_tiers": "storage.plan_tiers",
    "reorder": "storage.reordering",
    "sum_gradients": "models.cooperative",
    "sum_hook": "distributed.comm",
    "write_shards": "storage.write_shards",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "scores":
        return import_module("headrace.pipeline.scores")
    if name == "nn":
        return import_module("headrace.pipeline.models.nn")
    if name == "sar":
        return import_module("headrace.pipeline.models.sar")
    if name in _LATER:
        return getattr(import_module(f"headrace.pipeline.{_LATER[name]}"), name)
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")


def __dir__() -> list[str]:
    # What is public, and what Python itself looks for.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
