"""Graphs and features in shards, for passes."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.data.feature_names import FeatureName
from headrace.pipeline.lowered.ranks.decode_rows import DecodeRows
from headrace.pipeline.lowered.ranks.fetch_owned import ExchangeRows, FetchOwned
from headrace.pipeline.partition.part_owners import PartEdges
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan import PlanError, Stage, Window, graphs_of
from headrace.pipeline.plan.checks import shard_of_rows
from headrace.pipeline.plan.traits import shard_of_graph
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.storage.sharded_feature import ShardedFeature
from headrace.pipeline.storage.wanted import Wanted


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


def owners_of_features(stages: Window) -> Partition | None:
    """Return the owners of the nodes whose rows are in shards, or to which edges lead; None if all rows are whole.

    Owners of other nodes than those of the graphs are left to the stage that fetches, which refuses them.
    """
    sources = (source for stage in stages if stage.wants is not None for source in stage.wants.sources())
    shards = (shard_of_rows(source) for source in sources)
    sizes = {graph.num_nodes for _, graph in graphs_of(stages)}
    owners = (shard.owners for shard in shards if shard is not None)
    return next((one for one in owners if sizes <= {one.num_nodes}), None)


def of_owners(source: Stage, owners: Partition) -> Stage | None:
    """Return a source of nodes with those that each rank owns; None for pairs, and where shares are given."""
    match source:
        case ItemSampler(gives_pairs=False, partition=None, items_per_rank=False):
            return replace(source, partition=owners).made_of(source)
    return None


def sharded_edges(wanted: Wanted) -> dict[FeatureName, PartEdges]:
    """Return the edges of the edge features in shards that a stage fetches.

    Raises
    ------
    PlanError
        If a feature is one of a graph that is cut by edges.
    """
    shards = {name: shard_of_rows(wanted.source(("edge", name))) for name in wanted.edge}
    of_parts = {name: shard.edges for name, shard in shards.items() if shard is not None}
    found = {name: edges for name, edges in of_parts.items() if edges is not None}
    for name, edges in found.items():
        if edges.num_columns is not None:
            raise PlanError(
                f"fetch_feature: expected the edge feature {name!r} in parts of a graph that is cut by its nodes, got "
                "it in parts that are cut by edges, which plans do not read yet; cut the data set by hr.Partition"
            )
    return found
