"""Keep layers within the boundary of the source: around clusters, or all nodes of a graph."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.sample_hop import SampleHop
from headrace.pipeline.lowered.sample_induced import SampleInduced
from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.facts import Facts
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.plan.stage import Stage


def _check(stage: Stage, facts: Facts, machine: Machine) -> Window | None:
    """Refuse samplers that do not support a boundary."""
    del machine
    source = facts.source
    if source is None or source.boundary is None or not stage.num_hops or isinstance(stage, SampleInduced):
        return None
    if isinstance(stage, SampleHop) and stage.graph.is_typed:
        raise PlanError(
            f"{stage.origin.name}: expected a graph without types behind {source.origin.name}, got "
            f"{stage.graph!r}; pass graph.untyped()"
        )
    if not (isinstance(stage, SampleHop) and stage.hop.takes_all and stage.expand == "all"):
        raise PlanError(
            f"{stage.origin.name}: expected a sampler that takes all edges within {source.boundary} hops of the seeds "
            f"of {source.origin.name}; use sample_in_subgraph, with expand='all', or a source without a boundary"
        )
    return None


def _bound(hop: SampleHop, compact: Compact, facts: Facts, machine: Machine) -> Window | None:
    """Replace a hop that would cross the boundary by all edges among the nodes of the batch."""
    del compact, machine
    if facts.boundary is None or hop.layer < facts.boundary:
        return None
    return (SampleInduced(hop.graph, num_layers=1, first_layer=hop.layer, edge_ids=hop.edge_ids),)


def _extend(induced: SampleInduced, hop: SampleHop, compact: Compact, facts: Facts, machine: Machine) -> Window:
    """Use the same edges again for the next hop."""
    del hop, compact, facts, machine
    return (replace(induced, num_layers=induced.num_layers + 1),)


RULES = (
    Rule("samplers within a boundary", (Stage,), _check),
    Rule("sample_induced, sample_hop, compact -> sample_induced", (SampleInduced, SampleHop, Compact), _extend),
    Rule("sample_hop, compact beyond the boundary -> sample_induced", (SampleHop, Compact), _bound),
)
