"""Fuse hops and compactions into the fused CSC sampler (FastSample, arXiv 2311.17847)."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.fused import SampleFused
from headrace.pipeline.lowered.sample_hop import SampleHop
from headrace.pipeline.plan.facts import Facts
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window


def _fuse_hop(stage: SampleHop, compact: Compact, facts: Facts, machine: Machine) -> Window | None:
    del compact, facts, machine
    if stage.layer > 0 and stage.expand == "new":  # its frontier is what the hops before it have reached
        return None
    return (SampleFused((stage.hop,), first_layer=stage.layer, expand=stage.expand),)


def _extend_fused(
    fused: SampleFused, stage: SampleHop, compact: Compact, facts: Facts, machine: Machine
) -> Window | None:
    del compact, facts, machine
    follows = stage.layer == fused.first_layer + len(fused.hops) and stage.expand == fused.expand
    if not (follows and stage.hop.differs_by_rule_alone(fused.hops[0])):
        return None
    return (replace(fused, hops=(*fused.hops, stage.hop)),)


RULES = (
    # Extending is first: a hop begins a new fused stage only if there is none before it.
    Rule("sample_fused, sample_hop, compact -> sample_fused", (SampleFused, SampleHop, Compact), _extend_fused),
    Rule("sample_hop, compact -> sample_fused", (SampleHop, Compact), _fuse_hop),
)
