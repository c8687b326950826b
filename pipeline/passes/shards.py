"""Graphs and features in shards, for passes."""

from __future__ import annotations

from headrace.pipeline.data.feature_names import FeatureName
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan.checks import graphs_of, shard_of_graph, shard_of_rows
from headrace.pipeline.plan.rules import Window
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.storage.sharded_feature import ShardedFeature


def owners_of(stage: Stage) -> Partition | None:
    """Return the owners of the nodes of the graph in shards that a stage reads; None if it reads no such graph."""
    return graph_partition((stage,))


def graph_partition(stages: Window) -> Partition | None:
    """Return the owners of the nodes of a graph in shards; None if all graphs are whole."""
    shards = (shard_of_graph(graph) for _, graph in graphs_of(stages))
    return next((shard.partition for shard in shards if shard is not None), None)


def sharded_features(stage: FetchFeature) -> dict[FeatureName, ShardedFeature]:
    """Return the node features in shards that a stage fetches."""
    sources = zip(stage.node, stage.wanted.sources(), strict=False)  # node features are first
    return {name: shard for name, source in sources if (shard := shard_of_rows(source)) is not None}
