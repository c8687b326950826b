"""Fuse hops and compactions into the fused CSC sampler (FastSample, arXiv 2311.17847)."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.fused import SampleFused
from headrace.pipeline.lowered.hop import SampleHop
from headrace.pipeline.plan.facts import Facts
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window

#: What all hops of a fused stage have in common.
_SHARED = ("weight", "batch_dependency", "disjoint", "time", "window", "strictly_before", "exclude")


def _fuse_hop(hop: SampleHop, compact: Compact, facts: Facts, machine: Machine) -> Window | None:
    del facts, machine
    if not _agree(hop, compact):
        return None
    if hop.layer > 0 and hop.expand == "new":  # its frontier is what the hops before it have reached
        return None
    fused = SampleFused(
        hop.graph,
        (hop.rule,),
        key_layers=(hop.key_layer,),
        batch_dependency=hop.batch_dependency,
        first_layer=hop.layer,
        weight=hop.weight,
        expand=hop.expand,
        edge_ids=hop.edge_ids,
        disjoint=hop.disjoint,
        time=hop.time,
        window=hop.window,
        strictly_before=hop.strictly_before,
        exclude=hop.exclude,
    )
    return (fused,)


def _extend_fused(
    fused: SampleFused, hop: SampleHop, compact: Compact, facts: Facts, machine: Machine
) -> Window | None:
    del facts, machine
    follows = hop.layer == fused.first_layer + len(fused.rules)
    alike = all(getattr(hop, name) == getattr(fused, name) for name in _SHARED)
    if not (follows and alike and _agree(hop, compact) and _agree(fused, compact)):
        return None
    rules, key_layers = (*fused.rules, hop.rule), (*fused.key_layers, hop.key_layer)
    return (replace(fused, rules=rules, key_layers=key_layers),)


def _agree(first: SampleHop | SampleFused, second: Compact) -> bool:
    return first.graph is second.graph and first.expand == second.expand and first.edge_ids == second.edge_ids


RULES = (
    # Extending comes first: a hop begins a fused stage of its own only where there is none before it.
    Rule("sample_fused, sample_hop, compact -> sample_fused", (SampleFused, SampleHop, Compact), _extend_fused),
    Rule("sample_hop, compact -> sample_fused", (SampleHop, Compact), _fuse_hop),
)
