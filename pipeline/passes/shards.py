"""What passes know of graphs and features in shards."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.distributed.graph_shard import GraphShard
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan.checks import graphs_of
from headrace.pipeline.plan.rules import Window
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.stages.prefetch import Prefetch
from headrace.pipeline.storage.sharded_feature import ShardedFeature


def graph_partition(stages: Window) -> Partition | None:
    """Return the owners of the vertices of a graph in shards; None if all graphs are whole."""
    return next((graph.partition for _, graph in graphs_of(stages) if isinstance(graph, GraphShard)), None)


def sharded_features(stage: FetchFeature) -> dict[str, ShardedFeature]:
    """Return the node features in shards that a stage fetches."""
    sources = {name: stage.store.node[name] for name in stage.node}
    return {name: source for name, source in sources.items() if isinstance(source, ShardedFeature)}


def in_order(stages: Window) -> Window:
    """Return the stages with a single worker for each prefetch.

    Collectives come in the same order on every rank only if one thread makes the batches one after the other.
    """
    return tuple(
        replace(stage, workers=1) if isinstance(stage, Prefetch) and stage.workers > 1 else stage for stage in stages
    )
