"""Subgraphs of trees on ranks that each have a share of a batch's seeds: a rule of the pass ``sample_at_owners``."""

from __future__ import annotations

from headrace.pipeline.lowered.induce_at_owners import InduceAtOwners
from headrace.pipeline.plan.checks import shard_of_graph
from headrace.pipeline.plan.facts import Facts
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.stages.induce_subgraph import InduceInTrees, InduceSubgraph


def _induce(subgraph: InduceSubgraph, facts: Facts, machine: Machine) -> Window | None:
    """Take the edges of each rank's own trees, at the owners of nodes if the graph is in shards."""
    if machine.world_size == 1 or facts.shares_layers or not facts.trees or isinstance(subgraph, InduceInTrees):
        return None
    kind = InduceInTrees if shard_of_graph(subgraph.graph) is None else InduceAtOwners
    return (kind(subgraph.graph, edge_ids=subgraph.edge_ids, exclude=subgraph.left_out),)


TREES_IN_SHARES = Rule(
    "induce_subgraph of trees -> induce_in_trees, or induce_at_owners over shards", (InduceSubgraph,), _induce
)
