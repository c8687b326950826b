"""Keep layers within what the source of a plan says belongs to a batch: clusters, or all nodes of a graph.

A rule on the whole plan: the source decides, and stands next to no hop but the first.
"""

from __future__ import annotations

from headrace.pipeline.lowered.hop import SampleHop
from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.plan.source import SourceStage


def _bound(stages: Window, machine: Machine) -> Window | None:
    """Take all edges among the nodes of the batch, from the hop on that would reach beyond the boundary."""
    del machine
    source = stages[0]
    boundary = source.boundary if isinstance(source, SourceStage) else None
    if boundary is None:
        return None
    if boundary and not any(stage.num_hops for stage in stages):
        raise PlanError(
            f"{source.origin.name}: expected a sampler behind it, which goes as far as boundary={boundary} says, got "
            f"none; chain sample_in_subgraph(graph, num_hops={boundary}), or pass boundary=0"
        )
    # Loaded for few plans: most sources have no boundary.
    from headrace.pipeline.lowered.induced_hop import InducedHop
    from headrace.pipeline.lowered.sample_induced import SampleInduced

    if any(isinstance(stage, SampleInduced | InducedHop) for stage in stages):
        return None
    for stage in stages:
        if isinstance(stage, SampleHop) and stage.graph.is_typed:
            raise PlanError(
                f"{stage.origin.name}: expected a graph without types behind {source.origin.name}, got "
                f"{stage.graph!r}; pass graph.untyped()"
            )
        if stage.num_hops and not (isinstance(stage, SampleHop) and stage.takes_all and stage.expand == "all"):
            raise PlanError(
                f"{stage.origin.name}: expected a sampler that takes all edges within {boundary} hops of the seeds of "
                f"{source.origin.name}; use sample_in_subgraph, with expand='all', or a source without a boundary"
            )
    hops = [stage for stage in stages if isinstance(stage, SampleHop) and stage.layer >= boundary]
    if not hops:
        return None
    first = hops[0]
    induced = SampleInduced(first.graph, num_layers=len(hops), first_layer=first.layer, edge_ids=first.edge_ids)
    position = stages.index(first)
    return (*stages[:position], induced.made_of(first), *stages[position + 2 * len(hops) :])


RULES = (Rule("sample_hop, compact beyond the boundary -> sample_induced", (), _bound),)
