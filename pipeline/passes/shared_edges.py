"""The rewriting of the pass ``cooperative`` for ranks that share edges (GraphTheta, arXiv 2104.10569)."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.lowered.ranks._shared_edges import SharedEdges
from headrace.pipeline.lowered.ranks.exchange_ids import ExchangeIds
from headrace.pipeline.lowered.sample_hop import HopStage
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.partition.router import RankRouter
from headrace.pipeline.passes.shards import fetched_at_owners, graph_partition, sharded_edges
from headrace.pipeline.plan import CONVERTED, HOP, PlanError, Stage, Window
from headrace.pipeline.stages.induce_subgraph import InduceSubgraph


def share_edges(stages: Window, partition: EdgePartition, fetches: range) -> Window:
    """Send seeds to their masters, find edges on the ranks that hold them, and read features on the masters.

    Parameters
    ----------
    stages
        The plan.
    partition
        Who holds each edge, and the master of each node.
    fetches
        Positions of the stages among which are those that fetch for all nodes of a batch.

    Raises
    ------
    PlanError
        For stages that need all edges of a node in one place.
    """
    if graph_partition(stages) is not None:
        raise PlanError(
            "cooperative: expected whole graphs where ranks share edges, got shards, which are cut by nodes; give each "
            "rank the whole graph, or a partition of nodes"
        )
    in_shards = [name for stage in stages if stage.wants is not None for name in sharded_edges(stage.wants)]
    if in_shards:
        raise PlanError(
            f"cooperative: expected edge features {in_shards} whole where ranks share edges, got shards, which are at "
            "the owners of destinations; give each rank whole features, or a partition of nodes"
        )
    if all(stage.first_hop is None for stage in stages):
        raise PlanError(
            "cooperative: expected a sampler where ranks share edges, got a plan without one; chain "
            "sample_in_subgraph, or give a partition of nodes, partition=edge_partition.nodes"
        )
    for stage in stages:
        if stage.plants_trees:
            raise PlanError(
                f"cooperative: {stage.origin.name} grows a tree for each seed, but ranks share edges by {partition!r}, "
                "and each node once for all trees; use a partition of nodes, partition=edge_partition.nodes"
            )
    finder = SharedEdges(partition)
    rewritten: list[Stage] = [stages[0], ExchangeIds(RankRouter(partition.nodes)).made_of(stages[0])]
    for position, stage in enumerate(stages[1:], 1):
        if position in fetches:
            rewritten += fetched_at_owners(stage)
        elif isinstance(stage, InduceSubgraph) and stage.left_out is None:
            hops = sum(one.num_hops for one in rewritten)
            rewritten += [one.made_of(stage) for one in stage.found_by(finder, hops)]
        else:
            rewritten.append(_shared(stage, finder))
    return tuple(rewritten)


def _shared(stage: Stage, finder: SharedEdges) -> Stage:
    """Return the stage that finds the same over shared edges; a stage that finds nothing is unchanged."""
    if isinstance(stage, HopStage):
        if stage.graph.is_typed:
            raise PlanError(
                f"cooperative: expected a graph without types where ranks share edges, got {stage.graph!r}; pass "
                "graph.untyped() to sampler and partition, or use a partition of nodes, partition=edge_partition.nodes"
            )
        if stage.takes_all:
            return replace(stage, finder=finder).made_of(stage)
    if "num_positives" in stage.writes:
        raise PlanError(
            f"cooperative: {stage.origin.name} cannot draw pairs where ranks share edges by {finder.partition!r}, as "
            "seeds go to their masters before it; use a partition of nodes, partition=edge_partition.nodes"
        )
    if stage.first_hop is not None or ("n_id" in stage.writes and HOP not in stage.takes):
        raise PlanError(
            f"cooperative: {stage.origin.name} needs all in-edges of a node in one place, but ranks share edges by "
            f"{finder.partition!r}; use sample_in_subgraph with expand='all', or a partition of nodes, "
            "partition=edge_partition.nodes"
        )
    if stage.gives == CONVERTED:
        raise PlanError(
            f"cooperative: {stage.origin.name} cannot convert layers of which ranks share the edges by "
            f"{finder.partition!r}; use layers of hr.nn on batch.blocks, or a partition of nodes, "
            "partition=edge_partition.nodes"
        )
    return stage
