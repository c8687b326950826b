"""The names of `headrace`, imported plainly: the package imports this module when the first of them is asked for."""

from headrace.ops.errors import HeadraceError, InputError, PeerError, PlanError, PlanWarning, StateError
from headrace.ops.features.freed_memory import keep_freed_memory
from headrace.pipeline.convert.convert import convert
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.gcn_norm import gcn_norm
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.place import Place
from headrace.pipeline.data.split_items import Items
from headrace.pipeline.data.split_links import split_links
from headrace.pipeline.data.split_nodes import split_nodes
from headrace.pipeline.distributed import graph_shard  # noqa: F401 - it registers what `Graph.shard` calls
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.comm import sum_hook
from headrace.pipeline.interop import conversions  # noqa: F401 - it registers what `to_pyg` and `to_dgl` call
from headrace.pipeline.models.cooperative import cooperative, sum_gradients
from headrace.pipeline.models.inference.run import inference
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan import foreign_names
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Plan, verbs
from headrace.pipeline.plan.plan_tiers import plan_tiers
from headrace.pipeline.run.loader import Loader
from headrace.pipeline.stages.cluster_sampler import ClusterSampler
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.stages.other_sources import GlobalBatch
from headrace.pipeline.storage.cached_feature import CachedFeature
from headrace.pipeline.storage.cached_store import cached
from headrace.pipeline.storage.dataset.dataset import Dataset
from headrace.pipeline.storage.dataset.open_dataset import open_dataset
from headrace.pipeline.storage.dataset.write_dataset import save_dataset
from headrace.pipeline.storage.disk_feature import DiskFeature
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.parts import partition_dataset  # noqa: F401 - it registers what `Dataset.partition` calls
from headrace.pipeline.storage.quantized_feature import QuantizedFeature
from headrace.pipeline.storage.reordering import reorder
from headrace.pipeline.storage.rows import Rows
from headrace.pipeline.storage.sharded_feature import ShardedFeature
from headrace.pipeline.storage.tiered_feature import TieredFeature

__all__ = [
    "Block",
    "CachedFeature",
    "ClusterSampler",
    "Comm",
    "Dataset",
    "DiskFeature",
    "EdgePartition",
    "FeatureSource",
    "FeatureStore",
    "GlobalBatch",
    "Graph",
    "HeadraceError",
    "InputError",
    "ItemSampler",
    "Items",
    "Loader",
    "Machine",
    "MiniBatch",
    "Partition",
    "PeerError",
    "Place",
    "Plan",
    "PlanError",
    "PlanWarning",
    "QuantizedFeature",
    "Rows",
    "ShardedFeature",
    "StateError",
    "TieredFeature",
    "cached",
    "convert",
    "cooperative",
    "gcn_norm",
    "inference",
    "keep_freed_memory",
    "open_dataset",
    "plan_tiers",
    "reorder",
    "save_dataset",
    "split_links",
    "split_nodes",
    "sum_gradients",
    "sum_hook",
]


#: What to write for names of 0.1 that no module has; docs/upgrading.md has the same table.
_MOVED = {
    **dict.fromkeys(("GraphError", "ItemsError", "FeatureError"), "write InputError"),
    "write_shards": "save a data set, and write hr.open_dataset(path).partition(partition, folder)",
    "load_shards": "write hr.open_dataset(folder, rank=part)",
    "UsageError": "write PlanError",
    **dict.fromkeys(("LoaderError", "DeviceError"), "write HeadraceError"),
    "TierSizes": 'write the sizes as a dictionary, {"host": 10}',
    "GpuCachedFeature": 'write CachedFeature(source, rows=..., place="cuda")',
    **dict.fromkeys(
        ("TypeOffsets", "IdMap", "LinkSplit", "PartitionReport", "Reordered", "Shards", "Stats", "TierPlan"),
        "values of it have no public class",
    ),
}


def instead_of(name: str) -> str | None:
    """Return what to write in place of a name that `headrace` does not have; None if unknown."""
    from headrace import ext, testing  # for an error that is read

    for module in (ext, testing):
        if name in module.__all__:
            return f"write hr.{module.__name__.removeprefix('headrace.')}.{name}"
    return _MOVED.get(name) or foreign_names.instead_of(name, verbs())
