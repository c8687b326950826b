"""Subgraphs of trees on ranks that each have a share of a batch's seeds: a rule of the pass ``sample_at_owners``.

A rule on the whole plan: whether seeds grow trees is said by a stage that `induce_subgraph` does not stand next to.
"""

from __future__ import annotations

from headrace.pipeline.distributed.graph_shard import GraphShard
from headrace.pipeline.lowered.induce_at_owners import InduceAtOwners
from headrace.pipeline.lowered.plant_trees import PlantTrees
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.stages.induce_subgraph import InduceInTrees, InduceSubgraph


def _induce(stages: Window, machine: Machine) -> Window | None:
    """Take the edges of each rank's own trees, at the owners of nodes where the graph is in shards."""
    together = any(stage.shares_layers for stage in stages)
    trees = any(isinstance(stage, PlantTrees) for stage in stages)
    if machine.world_size == 1 or together or not trees:
        return None
    rewritten = tuple(_in_trees(stage) for stage in stages)
    return None if all(one is stage for one, stage in zip(rewritten, stages, strict=True)) else rewritten


def _in_trees(stage: Stage) -> Stage:
    """Return the stage by which a rank finds the subgraphs of its trees; any other stage as it is."""
    if not isinstance(stage, InduceSubgraph) or isinstance(stage, InduceInTrees):
        return stage
    kind = InduceAtOwners if isinstance(stage.graph, GraphShard) else InduceInTrees
    return kind(stage.graph, edge_ids=stage.edge_ids, exclude=stage.left_out).made_of(stage)


TREES_IN_SHARES = Rule("induce_subgraph of trees -> induce_in_trees, or induce_at_owners over shards", (), _induce)
