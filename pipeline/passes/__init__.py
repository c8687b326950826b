"""The passes, in the one order in which they run.

Each switch of ``plan.loader(...)`` has the name of an optional pass here. To add a pass, write its rules in a file of
its name and give it a position below, with the reason. The file is loaded if the pass may apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.pipeline.plan import Machine, Plan, Rule, rewriting
from headrace.pipeline.plan.rewriting import Rewriting
from headrace.pipeline.plan.rules import Pass, Promise

_STAGES = "headrace.pipeline.stages"


def _pass(name: str, promise: Promise, **traits: Any) -> Pass:
    """Return the pass whose rules are in the file of its name."""
    return Pass(name, promise, f"{__name__}.{name}", **traits)


def _lowering(name: str, promise: Promise, *, optional: bool = False, **traits: Any) -> Pass:
    """Return one that runs on every plan."""
    return _pass(name, promise, optional=optional, **traits)


#: These make a plan executable, and always run; each position has its reason.
LOWERINGS: tuple[Pass, ...] = (
    # first: all others are written against hops and compactions, not against samplers
    _lowering("expand_macros", Promise.SAME_BATCHES),
    # right after it: the plan that finds the sizes is made of the user's stages
    _lowering("pad", Promise.SAME_BATCHES, needs_module=f"{_STAGES}.pad"),
    # before all passes that read items, which expect ids of the graph: batches have ids of one space
    _lowering("typed_items", Promise.SAME_BATCHES),
    # after expansion, because hops leave edges out; before all passes that read hops
    _lowering("exclude_edges", Promise.SAME_BATCHES, needs_module=f"{_STAGES}.exclude_seed_edges"),
    # before all passes that read which stages find nodes: a boundary is part of the meaning of the source
    _lowering("within_boundary", Promise.SAME_BATCHES, needs_boundary=True),
    # before all passes that read where a batch is, as both of these
    _lowering("own_gpu", Promise.SAME_BATCHES, needs_module=f"{_STAGES}.copy_to"),
    _lowering("sample_on_cpu", Promise.SAME_BATCHES, needs_module=f"{_STAGES}.copy_to"),
    # after the passes that make hops, which it divides among ranks; only if the user asks for it
    _lowering("cooperative", Promise.SAME_UNION, optional=True, on=False, needs_ranks=True),
    # after cooperation, by which every rank has the rows of its frontier: a rank cannot sample rows that it lacks
    _lowering("sample_at_owners", Promise.SAME_UNION, needs_ranks=True),
    # the same for features: a rank cannot read rows that it lacks
    _lowering("fetch_at_owners", Promise.SAME_BATCHES, needs_ranks=True),
)

#: These save time and change no answer; each has a switch, and each position its reason.
OPTIMISATIONS: tuple[Pass, ...] = (
    # before all passes that read whether a source is on disk, or writes rows directly to their destination
    _pass("tiered_cache", Promise.SAME_BATCHES),
    # before prefetch, which may stand between a fetch and its exchange
    _pass("fuse_exchange", Promise.SAME_BATCHES, needs_ranks=True),
    # before prefetch, so that a worker receives whole fused stages
    _pass("fuse_sampling", Promise.SAME_BATCHES),
    # after fusion: fused hops fetch by themselves, and only others are split
    _pass("split_sample", Promise.SAME_BATCHES, needs_gpu=True),
    # after the split, which decides whose adjacency is fetched
    _pass("graph_cache", Promise.SAME_BATCHES, needs_gpu=True),
    # before the pass by which a GPU reads through its caches
    _pass("feature_cache", Promise.SAME_BATCHES, needs_gpu=True),
    # after the caches; before the look-ahead, which announces reads to those on a GPU
    _pass("uva_gather", Promise.SAME_BATCHES, needs_gpu=True),
    # before prefetch, which samples while the rows of a window are read
    _pass("lookahead", Promise.SAME_BATCHES),
    # after all passes that insert stages
    _pass("prefetch", Promise.SAME_BATCHES),
    # last: it needs a thread before the copy, and adds one behind
    _pass("stream_overlap", Promise.SAME_BATCHES, needs_gpu=True),
)

#: All, in the order in which they run.
PASSES = (*LOWERINGS, *OPTIMISATIONS)


def rewrite(plan: Plan, machine: Machine, switches: Mapping[str, bool] | None = None) -> Rewriting:
    """Apply the passes; see `headrace.pipeline.plan.rewriting.rewrite`."""
    return rewriting.rewrite(PASSES, plan, machine, switches)


__all__ = ["LOWERINGS", "OPTIMISATIONS", "PASSES", "Pass", "Promise", "Rule", "rewrite"]
