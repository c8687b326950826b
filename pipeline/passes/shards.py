"""Graphs and features in shards, for passes."""

from __future__ import annotations

from dataclasses import replace

from headrace.ops.errors import InputError
from headrace.pipeline.data.feature_names import FeatureName
from headrace.pipeline.lowered.ranks.decode_rows import DecodeRows
from headrace.pipeline.lowered.ranks.fetch_owned import ExchangeRows, FetchOwned
from headrace.pipeline.partition.part_edges import PartEdges
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan import Stage, Window, graphs_of
from headrace.pipeline.plan.checks import shard_of_rows
from headrace.pipeline.plan.traits import shard_of_graph
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.storage.sharded_feature import ShardedFeature


def owners_of(stage: Stage) -> Partition | None:
    """Return the owners of the nodes of the graph in shards that a stage reads; None if it reads no such graph."""
    return graph_partition((stage,))


def graph_partition(stages: Window) -> Partition | None:
    """Return the owners of the nodes of a graph in shards; None if all graphs are whole."""
    shards = (shard_of_graph(graph) for _, graph in graphs_of(stages))
    return next((shard.partition for shard in shards if shard is not None), None)


def fetched_at_owners(stage: Stage, *, exchange: bool = False) -> Window:
    """Return the stages that fetch the same as `fetch_feature` where nodes are owned; any other stage unchanged.

    Each row is read once, by the owner of its node, and with `exchange` sent to the ranks that want it. Features of
    edges and seeds are read by the rank that has these.
    """
    if not isinstance(stage, FetchFeature):
        return (stage,)
    of_nodes = stage.wanted.of_nodes()
    stages: list[Stage] = [*stage.rest(of_nodes)]
    if of_nodes:
        stages.append(FetchOwned(of_nodes.as_stored()))
    if of_nodes and exchange:
        stages.append(ExchangeRows(stage.node))
    if of_nodes and of_nodes.dtype is not None:
        stages.append(DecodeRows(of_nodes))
    return tuple(one.made_of(stage) for one in stages)


def sharded_features(stage: FetchFeature) -> dict[FeatureName, ShardedFeature]:
    """Return the node features in shards that a stage fetches."""
    sources = zip(stage.node, stage.wanted.sources(), strict=False)  # node features are first
    return {name: shard for name, source in sources if (shard := shard_of_rows(source)) is not None}


def owners_of_features(stage: FetchFeature) -> Partition | None:
    """Return the owners of the nodes whose rows are in shards, or to which edges lead; None if all rows are whole."""
    shards = (shard_of_rows(source) for source in stage.wanted.sources())
    return next((shard.owners for shard in shards if shard is not None), None)


def of_owners(source: Stage, owners: Partition) -> Stage | None:
    """Return a source of nodes of which each rank gets those that it owns; None for pairs, and where it has owners."""
    if not isinstance(source, ItemSampler) or source.gives_pairs or source.partition is not None:
        return None
    return replace(source, partition=owners).made_of(source)


def sharded_edges(stage: FetchFeature) -> dict[FeatureName, PartEdges]:
    """Return the edges of the edge features in shards that a stage fetches.

    Raises
    ------
    InputError
        For features that were cut as nodes are.
    """
    found: dict[FeatureName, PartEdges] = {}
    for name in stage.wanted.edge:
        shard = shard_of_rows(stage.wanted.source(("edge", name)))
        if shard is None:
            continue
        edges = shard.router.partition
        if not isinstance(edges, PartEdges):
            raise InputError(
                f"fetch_feature: expected the shard of edge feature {name!r} to have the edges of a part, got one by "
                f"{edges!r}; make it by hr.ShardedFeature.of(rows, shard.edges), where shard is graph.shard(partition)"
            )
        found[name] = edges
    return found
