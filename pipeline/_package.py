"""headrace: composable datapipe dataloading for graph neural networks.

>>> import headrace as hr
>>> graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=3)
>>> loader = hr.ItemSampler(3, batch_size=2).sample_neighbor(graph, fanouts=[2]).loader()
>>> [batch.n_id.tolist() for batch in loader]
[[0, 1, 2], [2, 1]]
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from headrace.ops.names import Former as _Former
from headrace.ops.names import later as _later
from headrace.pipeline import stages as _stages  # noqa: F401 - it tells plans their verbs
from headrace.pipeline.later import FUNCTIONS as _FUNCTIONS
from headrace.pipeline.later import METHODS as _METHODS
from headrace.pipeline.version import VERSION as _VERSION

if _TYPE_CHECKING:
    from headrace import nn, sar, scores
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
        PlanWarning,
        StateError,
        UsageError,
    )
    from headrace.ops.features.freed_memory import keep_freed_memory
    from headrace.ops.features.tiers import TierSizes
    from headrace.ops.sampling.rules import LaborImportanceRule, LaborRule, LadiesRule, LatestRule, NeighborRule
    from headrace.pipeline.convert.convert import convert
    from headrace.pipeline.data import Block, Graph, Items, MiniBatch, Place, TypeOffsets
    from headrace.pipeline.data.gcn_norm import gcn_norm
    from headrace.pipeline.data.split_links import LinkSplit, split_links
    from headrace.pipeline.data.split_nodes import split_nodes
    from headrace.pipeline.distributed.channel import Comm
    from headrace.pipeline.distributed.comm import sum_hook
    from headrace.pipeline.distributed.local_comm import LocalGroup
    from headrace.pipeline.models.cooperative import cooperative, sum_gradients
    from headrace.pipeline.models.inference.run import inference
    from headrace.pipeline.partition.edge_partition import EdgePartition
    from headrace.pipeline.partition.partition import Partition
    from headrace.pipeline.partition.report import PartitionReport
    from headrace.pipeline.plan.machine import Machine
    from headrace.pipeline.plan.plan import Plan, verb, verbs
    from headrace.pipeline.plan.plan_tiers import TierPlan, plan_tiers
    from headrace.pipeline.plan.source import BatchSource, SourceStage
    from headrace.pipeline.plan.stage import MacroStage, MapStage, RunSettings, Stage
    from headrace.pipeline.run.loader import Loader
    from headrace.pipeline.run.stats import Stats
    from headrace.pipeline.stages.cluster_sampler import ClusterSampler
    from headrace.pipeline.stages.hop_sampler import HopSampler
    from headrace.pipeline.stages.item_sampler import ItemSampler
    from headrace.pipeline.stages.other_sources import GlobalBatch, NodeSource
    from headrace.pipeline.storage.cached_feature import CachedFeature
    from headrace.pipeline.storage.cached_store import cached
    from headrace.pipeline.storage.dataset.id_map import IdMap
    from headrace.pipeline.storage.dataset.open_dataset import Dataset, open_dataset
    from headrace.pipeline.storage.dataset.write_dataset import save_dataset
    from headrace.pipeline.storage.disk_feature import DiskFeature
    from headrace.pipeline.storage.feature_source import FeatureSource
    from headrace.pipeline.storage.features import FeatureStore
    from headrace.pipeline.storage.load_shards import Shards, load_shards
    from headrace.pipeline.storage.quantized_feature import QuantizedFeature
    from headrace.pipeline.storage.reordering import Reordered, reorder
    from headrace.pipeline.storage.rows import Rows
    from headrace.pipeline.storage.sharded_feature import ShardedFeature
    from headrace.pipeline.storage.source_protocols import ExpectingSource, PlacingSource
    from headrace.pipeline.storage.tiered_feature import TieredFeature
    from headrace.pipeline.storage.write_shards import write_shards

__version__ = _VERSION

__all__ = [
    "BatchSource",
    "Block",
    "CachedFeature",
    "ClusterSampler",
    "Comm",
    "Dataset",
    "DeviceError",
    "DiskFeature",
    "EdgePartition",
    "ExpectingSource",
    "FeatureError",
    "FeatureSource",
    "FeatureStore",
    "GlobalBatch",
    "Graph",
    "GraphError",
    "HeadraceError",
    "HopSampler",
    "IdMap",
    "InputError",
    "ItemSampler",
    "Items",
    "ItemsError",
    "LaborImportanceRule",
    "LaborRule",
    "LadiesRule",
    "LatestRule",
    "LinkSplit",
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
    "PlanWarning",
    "QuantizedFeature",
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
    "convert",
    "cooperative",
    "gcn_norm",
    "inference",
    "keep_freed_memory",
    "load_shards",
    "nn",
    "open_dataset",
    "plan_tiers",
    "reorder",
    "sar",
    "save_dataset",
    "scores",
    "split_links",
    "split_nodes",
    "sum_gradients",
    "sum_hook",
    "verb",
    "verbs",
    "write_shards",
]

# `import headrace` loads nothing of this, and torch neither: each name is loaded when it is asked for the first time.
_MODULES = {
    "BatchSource": "headrace.pipeline.plan.source",
    "Block": "headrace.pipeline.data.block",
    "CachedFeature": "headrace.pipeline.storage.cached_feature",
    "ClusterSampler": "headrace.pipeline.stages.cluster_sampler",
    "Comm": "headrace.pipeline.distributed.channel",
    "Dataset": "headrace.pipeline.storage.dataset.open_dataset",
    "DeviceError": "headrace.ops.errors",
    "DiskFeature": "headrace.pipeline.storage.disk_feature",
    "EdgePartition": "headrace.pipeline.partition.edge_partition",
    "ExpectingSource": "headrace.pipeline.storage.source_protocols",
    "FeatureError": "headrace.ops.errors",
    "FeatureSource": "headrace.pipeline.storage.feature_source",
    "FeatureStore": "headrace.pipeline.storage.features",
    "GlobalBatch": "headrace.pipeline.stages.other_sources",
    "Graph": "headrace.pipeline.data.graph",
    "GraphError": "headrace.ops.errors",
    "HeadraceError": "headrace.ops.errors",
    "HopSampler": "headrace.pipeline.stages.hop_sampler",
    "IdMap": "headrace.pipeline.storage.dataset.id_map",
    "InputError": "headrace.ops.errors",
    "ItemSampler": "headrace.pipeline.stages.item_sampler",
    "Items": "headrace.pipeline.data.items",
    "ItemsError": "headrace.ops.errors",
    "LaborImportanceRule": "headrace.ops.sampling.rules",
    "LaborRule": "headrace.ops.sampling.rules",
    "LadiesRule": "headrace.ops.sampling.rules",
    "LatestRule": "headrace.ops.sampling.rules",
    "LinkSplit": "headrace.pipeline.data.split_links",
    "Loader": "headrace.pipeline.run.loader",
    "LoaderError": "headrace.ops.errors",
    "LocalGroup": "headrace.pipeline.distributed.local_comm",
    "Machine": "headrace.pipeline.plan.machine",
    "MacroStage": "headrace.pipeline.plan.stage",
    "MapStage": "headrace.pipeline.plan.stage",
    "MiniBatch": "headrace.pipeline.data.batch",
    "NeighborRule": "headrace.ops.sampling.rules",
    "NodeSource": "headrace.pipeline.stages.other_sources",
    "Partition": "headrace.pipeline.partition.partition",
    "PartitionReport": "headrace.pipeline.partition.report",
    "PeerError": "headrace.ops.errors",
    "Place": "headrace.pipeline.data.place",
    "PlacingSource": "headrace.pipeline.storage.source_protocols",
    "Plan": "headrace.pipeline.plan.plan",
    "PlanError": "headrace.ops.errors",
    "PlanWarning": "headrace.ops.errors",
    "QuantizedFeature": "headrace.pipeline.storage.quantized_feature",
    "Reordered": "headrace.pipeline.storage.reordering",
    "Rows": "headrace.pipeline.storage.rows",
    "RunSettings": "headrace.pipeline.plan.stage",
    "ShardedFeature": "headrace.pipeline.storage.sharded_feature",
    "Shards": "headrace.pipeline.storage.load_shards",
    "SourceStage": "headrace.pipeline.plan.source",
    "Stage": "headrace.pipeline.plan.stage",
    "StateError": "headrace.ops.errors",
    "Stats": "headrace.pipeline.run.stats",
    "TierPlan": "headrace.pipeline.plan.plan_tiers",
    "TierSizes": "headrace.ops.features.tiers",
    "TieredFeature": "headrace.pipeline.storage.tiered_feature",
    "TypeOffsets": "headrace.pipeline.data.types",
    "UsageError": "headrace.ops.errors",
    "cached": "headrace.pipeline.storage.cached_store",
    "convert": "headrace.pipeline.convert.convert",
    "cooperative": "headrace.pipeline.models.cooperative",
    "gcn_norm": "headrace.pipeline.data.gcn_norm",
    "inference": "headrace.pipeline.models.inference.run",
    "keep_freed_memory": "headrace.ops.features.freed_memory",
    "load_shards": "headrace.pipeline.storage.load_shards",
    "open_dataset": "headrace.pipeline.storage.dataset.open_dataset",
    "plan_tiers": "headrace.pipeline.plan.plan_tiers",
    "reorder": "headrace.pipeline.storage.reordering",
    "save_dataset": "headrace.pipeline.storage.dataset.write_dataset",
    "split_links": "headrace.pipeline.data.split_links",
    "split_nodes": "headrace.pipeline.data.split_nodes",
    "sum_gradients": "headrace.pipeline.models.cooperative",
    "sum_hook": "headrace.pipeline.distributed.comm",
    "verb": "headrace.pipeline.plan.plan",
    "verbs": "headrace.pipeline.plan.plan",
    "write_shards": "headrace.pipeline.storage.write_shards",
}
_SUBMODULES = {
    "ext": "headrace.ext",
    "nn": "headrace.nn",
    "ops": "headrace.ops",
    "sar": "headrace.sar",
    "scores": "headrace.scores",
    "testing": "headrace.testing",
}
# Names of before, as docs/upgrading.md promises. They are not in __all__.
_FORMER = {
    "GpuCachedFeature": _Former(
        "headrace.pipeline.storage.gpu_cached_feature", 'headrace.CachedFeature(source, place="cuda")', "0.1"
    ),
}

# What runs plans adds this to them; importing the stages, above, lets plans have their verbs.
_METHODS["loader"] = _METHODS["explain"] = "headrace.pipeline.run.make_loader"

# What methods of graphs, blocks and batches call.
_FUNCTIONS |= {
    **dict.fromkeys(
        ("batch_to_dgl", "batch_to_pyg", "block_to_dgl", "edge_index_of"), "headrace.pipeline.interop.conversions"
    ),
    "adj_t_of": "headrace.pipeline.interop.conversions",
    "shard": "headrace.pipeline.distributed.graph_shard",
    **dict.fromkeys(("load_graph", "save_graph"), "headrace.pipeline.storage.dataset.open_dataset"),
}


def _advice(name: str) -> str | None:
    from headrace.pipeline.plan.foreign_names import instead_of

    return instead_of(name)


if not _TYPE_CHECKING:
    __getattr__, __dir__ = _later(__name__, _MODULES, _SUBMODULES, _advice, _FORMER)
