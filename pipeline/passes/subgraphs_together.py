"""The rewriting of the pass ``cooperative`` for batches that are subgraphs of the sampled nodes."""

from __future__ import annotations

from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.induced_hop import InducedHop
from headrace.pipeline.lowered.reach_nodes import ReachNodes
from headrace.pipeline.lowered.sample_hop import SampleHop
from headrace.pipeline.lowered.square_block import KeepSquareBlock
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.rules import Window
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.stages.induce_subgraph import InduceSubgraph


def subgraphs_together(stages: Window, partition: Partition) -> Window:
    """Find the edges among the nodes of a batch by a hop of all ranks; the hops before it only find nodes.

    Plans without `induce_subgraph` stay as they are.
    """
    last = max((place for place, stage in enumerate(stages) if isinstance(stage, InduceSubgraph)), default=-1)
    rewritten: list[Stage] = []
    for place, stage in enumerate(stages):
        before = rewritten[-1] if rewritten else None
        if place < last and isinstance(stage, SampleHop) and stage.expand == "new" and stage.hop.rule.per_destination:
            rewritten.append(ReachNodes(**stage.parameters()).made_of(stage))
        elif isinstance(stage, Compact) and isinstance(before, ReachNodes):
            continue
        elif isinstance(stage, InduceSubgraph):
            hops = sum(one.num_hops for one in rewritten)
            rewritten += [one.made_of(stage) for one in _induced(stage, hops, partition)]
        else:
            rewritten.append(stage)
    return tuple(rewritten)


def check_fetches_behind(stages: Window) -> None:
    """Refuse node features that are fetched before a subgraph.

    Raises
    ------
    PlanError
        Which says to fetch them behind.
    """
    fetched = False
    for stage in stages:
        fetched = fetched or (stage.wants is not None and bool(stage.wants.node))
        if fetched and isinstance(stage, InduceSubgraph):
            raise PlanError(
                f"{stage.origin.name}: expected fetch_feature behind it, where ranks make batches together, got it "
                "ahead; nodes go to their owners in between: fetch their features behind the subgraph"
            )


def _induced(stage: InduceSubgraph, hops: int, partition: Partition) -> Window:
    """Return the stages that find the subgraph after a number of hops."""
    graph, edge_ids = stage.graph, stage.edge_ids
    hop = InducedHop(graph, layer=hops, partition=partition, edge_ids=edge_ids, exclude=stage.left_out)
    return (hop, Compact(graph, edge_ids=edge_ids), KeepSquareBlock())
