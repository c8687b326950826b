"""Fuse hops and compactions into the fused CSC sampler (FastSample, arXiv 2311.17847)."""

from __future__ import annotations

from headrace.pipeline.machine import Machine
from headrace.pipeline.passes.rewrite import Pass, Promise, Rule, Window
from headrace.pipeline.stages.compact import Compact
from headrace.pipeline.stages.fused import SampleFused
from headrace.pipeline.stages.hop import SampleHop


def _fuse_hop(window: Window, machine: Machine) -> Window | None:
    del machine
    hop, compact = window
    if not (isinstance(hop, SampleHop) and isinstance(compact, Compact) and hop.layer == 0 and _agree(hop, compact)):
        return None
    fused = SampleFused(
        hop.graph, (hop.rule,), key_layers=(hop.key_layer,), expand=hop.expand, edge_ids=compact.edge_ids
    )
    return (fused,)


def _extend_fused(window: Window, machine: Machine) -> Window | None:
    del machine
    fused, hop, compact = window
    if not (isinstance(fused, SampleFused) and isinstance(hop, SampleHop) and isinstance(compact, Compact)):
        return None
    if not (_agree(hop, compact) and hop.layer == len(fused.rules) and _agree(fused, compact)):
        return None
    longer = SampleFused(
        fused.graph,
        (*fused.rules, hop.rule),
        key_layers=(*fused.key_layers, hop.key_layer),
        expand=fused.expand,
        edge_ids=fused.edge_ids,
    )
    return (longer,)


def _agree(first: SampleHop | SampleFused, second: Compact) -> bool:
    return first.graph is second.graph and first.expand == second.expand and first.edge_ids == second.edge_ids


FUSE_SAMPLING = Pass(
    "fuse_sampling",
    Promise.SAME_BATCHES,
    rules=(
        Rule("sample_hop, compact -> sample_fused", (SampleHop, Compact), _fuse_hop),
        Rule("sample_fused, sample_hop, compact -> sample_fused", (SampleFused, SampleHop, Compact), _extend_fused),
    ),
)
