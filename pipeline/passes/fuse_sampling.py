"""Fuse hops and compactions into the fused CSC sampler (FastSample, arXiv 2311.17847)."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.lowered import HERE, Compact, SampleHop
from headrace.pipeline.lowered.fused import SampleFused
from headrace.pipeline.plan import Facts, Machine, Rule, Window


def _fuse_hop(stage: SampleHop, compact: Compact, facts: Facts, machine: Machine) -> Window | None:
    del facts, machine
    # With "new" the frontier of a later hop is what the hops before it have reached.
    if not _fuses(stage, compact) or (stage.layer > 0 and stage.expand == "new"):
        return None
    return (SampleFused((stage.hop,), first_layer=stage.layer, expand=stage.expand),)


def _extend_fused(
    fused: SampleFused, stage: SampleHop, compact: Compact, facts: Facts, machine: Machine
) -> Window | None:
    del facts, machine
    follows = (
        _fuses(stage, compact) and stage.layer == fused.first_layer + len(fused.hops) and stage.expand == fused.expand
    )
    if not (follows and stage.hop.differs_by_rule_alone(fused.hops[0])):
        return None
    return (replace(fused, hops=(*fused.hops, stage.hop)),)


def _fuses(stage: SampleHop, compact: Compact) -> bool:
    """Whether the fused sampler can find the edges of a hop and keeps what its compaction does."""
    return stage.finder == HERE and compact.keep == "block"


RULES = (
    # Extending is first: a hop begins a new fused stage only if there is none before it.
    Rule("sample_fused, sample_hop, compact -> sample_fused", (SampleFused, SampleHop, Compact), _extend_fused),
    Rule("sample_hop, compact -> sample_fused", (SampleHop, Compact), _fuse_hop),
)
