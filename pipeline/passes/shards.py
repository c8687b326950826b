"""What passes know of graphs and features in shards."""

from __future__ import annotations

from headrace.pipeline.data.feature_names import FeatureName
from headrace.pipeline.distributed.graph_shard import GraphShard
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan.checks import graphs_of
from headrace.pipeline.plan.rules import Window
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.storage.sharded_feature import ShardedFeature


def graph_partition(stages: Window) -> Partition | None:
    """Return the owners of the nodes of a graph in shards; None if all graphs are whole."""
    return next((graph.partition for _, graph in graphs_of(stages) if isinstance(graph, GraphShard)), None)


def sharded_features(stage: FetchFeature) -> dict[FeatureName, ShardedFeature]:
    """Return the node features in shards that a stage fetches."""
    sources = {name: stage.store.node[name] for name in stage.node}
    return {name: source for name, source in sources.items() if isinstance(source, ShardedFeature)}
