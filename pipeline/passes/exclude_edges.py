"""Tell hops which edges they are to leave out.

A rule on the whole plan: a copy, negatives and what else users chain may stand between `exclude_seed_edges` and the
hops, all of which it is for.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.lowered.hop import SampleHop
from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Pass, Promise, Rule, Window
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.stages.exclude_seed_edges import ExcludeSeedEdges
from headrace.pipeline.stages.induce_subgraph import InduceSubgraph, InduceWithout


def _exclude(stages: Window, machine: Machine) -> Window | None:
    """Take the stage out, and let the hops behind it leave out its edges."""
    del machine
    place = next((i for i, stage in enumerate(stages) if isinstance(stage, ExcludeSeedEdges)), None)
    if place is None:
        return None
    stage = stages[place]
    assert isinstance(stage, ExcludeSeedEdges)
    behind = stages[place + 1 :]
    if not any(one.num_hops for one in behind):
        raise PlanError(
            "exclude_seed_edges: expected a sampler behind it, got none; chain it ahead of sample_neighbor or another "
            "sampler"
        )
    return (*stages[:place], *(_leaving_out(one, stage) for one in behind))


def _leaving_out(stage: Stage, exclude: ExcludeSeedEdges) -> Stage:
    """Return a stage that leaves out the edges, if it finds any; others as they are."""
    if isinstance(stage, InduceSubgraph):
        return InduceWithout(stage.graph, edge_ids=stage.edge_ids, exclude=exclude.edges).made_of(stage)
    if isinstance(stage, SampleHop):
        return replace(stage, exclude=exclude.edges).made_of(stage)
    if stage.num_hops:
        raise PlanError(
            f"{stage.origin.name} cannot leave out edges, which exclude_seed_edges asks for; use sample_neighbor, "
            "sample_layer_neighbor, sample_ladies or sample_in_subgraph"
        )
    return stage


EXCLUDE_EDGES = Pass(
    "exclude_edges",
    Promise.SAME_BATCHES,
    rules=(Rule("exclude_seed_edges, sample_hop -> sample_hop that leaves edges out", (), _exclude),),
    optional=False,
)
"""Not optional: it is how edges are left out."""
