"""Keep layers within the boundary of the source: around clusters, or all nodes of a graph."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.lowered import Compact, HopStage, SampleHop
from headrace.pipeline.lowered.induce_hop import InduceHop
from headrace.pipeline.plan import Facts, Machine, PlanError, Rule, Stage, Window


def _check(stage: Stage, facts: Facts, machine: Machine) -> Window | None:
    """Refuse samplers that do not support a boundary."""
    del machine
    source = facts.source
    if source is None or source.boundary is None or stage.first_hop is None:
        return None
    hop = stage if isinstance(stage, HopStage) else None
    if hop is not None and hop.graph.is_typed:
        raise PlanError(
            f"{stage.origin.name}: expected a graph without types behind {source.origin.name}, got "
            f"{hop.graph!r}; pass graph.untyped()"
        )
    if hop is None or not hop.takes_all:
        raise PlanError(
            f"{stage.origin.name}: expected a sampler that takes all edges within {source.boundary} hops of the seeds "
            f"of {source.origin.name}; use sample_in_subgraph, with expand='all', or a source without a boundary"
        )
    return None


def _bound(hop: SampleHop, compact: Compact, facts: Facts, machine: Machine) -> Window | None:
    """Replace a hop that would cross the boundary by all edges among the nodes of the batch."""
    del machine
    if facts.boundary is None or hop.layer < facts.boundary:
        return None
    return (InduceHop(hop.graph, layer=hop.layer, edge_ids=hop.edge_ids), compact)


def _extend(
    induced: InduceHop, kept: Compact, hop: SampleHop, compact: Compact, facts: Facts, machine: Machine
) -> Window:
    """Use the same edges again for the next hop."""
    del hop, compact, facts, machine
    return (induced, replace(kept, times=kept.times + 1))


RULES = (
    Rule("samplers within a boundary", (Stage,), _check),
    Rule(
        "induce_hop, compact, sample_hop, compact -> induce_hop, compact",
        (InduceHop, Compact, SampleHop, Compact),
        _extend,
    ),
    Rule("sample_hop beyond the boundary -> induce_hop", (SampleHop, Compact), _bound),
)
