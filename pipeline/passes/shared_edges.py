"""The rewriting of the pass ``cooperative`` for ranks that share edges (GraphTheta, arXiv 2104.10569)."""

from __future__ import annotations

from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.exchange_ids import ExchangeIds
from headrace.pipeline.lowered.fetch_owned import FetchOwned
from headrace.pipeline.lowered.plant_trees import PlantTrees
from headrace.pipeline.lowered.sample_hop import SampleHop
from headrace.pipeline.lowered.sample_induced import SampleInduced
from headrace.pipeline.lowered.shared_hop import SharedHop
from headrace.pipeline.lowered.shared_induced import SharedInduced
from headrace.pipeline.lowered.square_block import KeepSquareBlock
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.partition.router import RankRouter
from headrace.pipeline.passes.shards import graph_partition
from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.rules import Window
from headrace.pipeline.plan.stage import CONVERTED, Stage
from headrace.pipeline.stages.fetch_feature import FetchFeature
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
    if not any(stage.num_hops for stage in stages):
        raise PlanError(
            "cooperative: expected a sampler where ranks share edges, got a plan without one; chain "
            "sample_in_subgraph, or give a partition of nodes, partition=edge_partition.nodes"
        )
    for stage in stages:
        if isinstance(stage, SampleHop) and stage.graph.is_typed:
            raise PlanError(
                f"cooperative: expected a graph without types where ranks share edges, got {stage.graph!r}; pass "
                "graph.untyped() to sampler and partition, or use a partition of nodes, partition=edge_partition.nodes"
            )
        if isinstance(stage, PlantTrees):
            raise PlanError(
                f"cooperative: {stage.origin.name} grows a tree for each seed, but ranks share edges by {partition!r}, "
                "and each node once for all trees; use a partition of nodes, partition=edge_partition.nodes"
            )
    rewritten: list[Stage] = []
    for position, stage in enumerate(stages):
        if position == 0:
            rewritten += [stage, ExchangeIds(RankRouter(partition.nodes)).made_of(stage)]
        elif isinstance(stage, FetchFeature) and position in fetches:
            rewritten += _at_masters(stage)
        elif isinstance(stage, InduceSubgraph) and stage.left_out is None:
            hops = sum(one.num_hops for one in rewritten)
            induced = SharedInduced(stage.graph, layer=hops, num_layers=1, partition=partition, edge_ids=stage.edge_ids)
            rewritten += [induced.made_of(stage), KeepSquareBlock().made_of(stage)]
        elif not isinstance(stage, Compact):  # shared hops number the nodes that they find
            rewritten.append(_shared(stage, partition))
    return tuple(rewritten)


def _shared(stage: Stage, partition: EdgePartition) -> Stage:
    """Return the stage that finds the same over shared edges; a stage that finds nothing is unchanged."""
    shared: Stage
    if isinstance(stage, SampleInduced):
        shared = SharedInduced(
            stage.graph,
            layer=stage.first_layer,
            num_layers=stage.num_layers,
            partition=partition,
            edge_ids=stage.edge_ids,
        )
    elif isinstance(stage, SampleHop) and stage.hop.takes_all and stage.expand == "all":
        shared = SharedHop(stage.graph, layer=stage.layer, partition=partition, edge_ids=stage.edge_ids)
    elif stage.num_hops or "n_id" in stage.writes:
        raise PlanError(
            f"cooperative: {stage.origin.name} needs all in-edges of a node in one place, but ranks share edges by "
            f"{partition!r}; use sample_in_subgraph with expand='all', or a partition of nodes, "
            "partition=edge_partition.nodes"
        )
    elif stage.gives == CONVERTED:
        raise PlanError(
            f"cooperative: {stage.origin.name} cannot convert layers of which ranks share the edges by {partition!r}; "
            "use layers of hr.nn on batch.blocks, or a partition of nodes, partition=edge_partition.nodes"
        )
    else:
        return stage
    return shared.made_of(stage)


def _at_masters(fetch: FetchFeature) -> list[Stage]:
    """Return the stages that fetch the same: node features on masters, edge features on the ranks with the edges."""
    of_nodes = fetch.wanted.of_nodes()
    stages: list[Stage] = [*fetch.rest(of_nodes)]
    if of_nodes:
        stages.append(FetchOwned(of_nodes))
    return [stage.made_of(fetch) for stage in stages]
