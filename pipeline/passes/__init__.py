"""The passes, in the one order in which they run.

Each switch of ``plan.loader(...)`` has the name of an optional pass here. To add a pass, write its rules in a file of
its name and give it a position below, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.pipeline.passes import (
    cooperative,
    exclude_edges,
    expand_macros,
    feature_cache,
    fetch_at_owners,
    fuse_exchange,
    fuse_sampling,
    graph_cache,
    lookahead,
    own_gpu,
    pad,
    prefetch,
    sample_at_owners,
    sample_on_cpu,
    split_sample,
    stream_overlap,
    tiered_cache,
    typed_items,
    uva_gather,
    within_boundary,
)
from headrace.pipeline.plan import Machine, Plan, Rule, rewriting
from headrace.pipeline.plan.rewriting import Rewriting
from headrace.pipeline.plan.rules import Pass, Promise
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.exclude_seed_edges import ExcludeSeedEdges
from headrace.pipeline.stages.pad import Pad


def _lowering(name: str, promise: Promise, rules: tuple[Rule, ...], *, optional: bool = False, **traits: Any) -> Pass:
    """Return one that runs on every plan."""
    return Pass(name, promise, rules, optional=optional, **traits)


#: These make a plan executable, and always run; each position has its reason.
LOWERINGS: tuple[Pass, ...] = (
    # first: all others are written against hops and compactions, not against samplers
    _lowering("expand_macros", Promise.SAME_BATCHES, expand_macros.RULES),
    # right after it: the plan that finds the sizes is made of the user's stages
    _lowering("pad", Promise.SAME_BATCHES, pad.RULES, needs_stage=Pad),
    # before all passes that read items, which expect ids of the graph: batches have ids of one space
    _lowering("typed_items", Promise.SAME_BATCHES, typed_items.RULES),
    # after expansion, because hops leave edges out; before all passes that read hops
    _lowering("exclude_edges", Promise.SAME_BATCHES, exclude_edges.RULES, needs_stage=ExcludeSeedEdges),
    # before all passes that read which stages find nodes: a boundary is part of the meaning of the source
    _lowering("within_boundary", Promise.SAME_BATCHES, within_boundary.RULES, needs_boundary=True),
    # before all passes that read where a batch is, as both of these
    _lowering("own_gpu", Promise.SAME_BATCHES, own_gpu.RULES, needs_stage=CopyTo),
    _lowering("sample_on_cpu", Promise.SAME_BATCHES, sample_on_cpu.RULES, needs_stage=CopyTo),
    # after the passes that make hops, which it divides among ranks; only if the user asks for it
    _lowering("cooperative", Promise.SAME_UNION, cooperative.RULES, optional=True, on=False, needs_ranks=True),
    # after cooperation, by which every rank has the rows of its frontier: a rank cannot sample rows that it lacks
    _lowering("sample_at_owners", Promise.SAME_UNION, sample_at_owners.RULES, needs_ranks=True),
    # the same for features: a rank cannot read rows that it lacks
    _lowering("fetch_at_owners", Promise.SAME_BATCHES, fetch_at_owners.RULES, needs_ranks=True),
)

#: These save time and change no answer; each has a switch, and each position its reason.
OPTIMISATIONS: tuple[Pass, ...] = (
    # before all passes that read whether a source is on disk, or writes rows directly to their destination
    Pass("tiered_cache", Promise.SAME_BATCHES, tiered_cache.RULES),
    # before prefetch, which may stand between a fetch and its exchange
    Pass("fuse_exchange", Promise.SAME_BATCHES, fuse_exchange.RULES, needs_ranks=True),
    # before prefetch, so that a worker receives whole fused stages
    Pass("fuse_sampling", Promise.SAME_BATCHES, fuse_sampling.RULES),
    # after fusion: fused hops fetch by themselves, and only others are split
    Pass("split_sample", Promise.SAME_BATCHES, split_sample.RULES, needs_gpu=True),
    # after the split, which decides whose adjacency is fetched
    Pass("graph_cache", Promise.SAME_BATCHES, graph_cache.RULES, needs_gpu=True),
    # before the pass by which a GPU reads through its caches
    Pass("feature_cache", Promise.SAME_BATCHES, feature_cache.RULES, needs_gpu=True),
    # after the caches; before the look-ahead, which announces reads to those on a GPU
    Pass("uva_gather", Promise.SAME_BATCHES, uva_gather.RULES, needs_gpu=True),
    # before prefetch, which samples while the rows of a window are read
    Pass("lookahead", Promise.SAME_BATCHES, lookahead.RULES),
    # after all passes that insert stages
    Pass("prefetch", Promise.SAME_BATCHES, prefetch.RULES),
    # last: it needs a thread before the copy, and adds one behind
    Pass("stream_overlap", Promise.SAME_BATCHES, stream_overlap.RULES, needs_gpu=True),
)

#: All, in the order in which they run.
PASSES = (*LOWERINGS, *OPTIMISATIONS)


def rewrite(plan: Plan, machine: Machine, switches: Mapping[str, bool | Pass] | None = None) -> Rewriting:
    """Apply the passes; see `headrace.pipeline.plan.rewriting.rewrite`."""
    return rewriting.rewrite(PASSES, plan, machine, switches)


__all__ = ["LOWERINGS", "OPTIMISATIONS", "PASSES", "Pass", "Promise", "Rule", "rewrite"]
