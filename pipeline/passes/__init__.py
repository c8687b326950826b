"""The passes, in the one order in which they run.

Each switch of ``plan.loader(...)`` has the name of an optional pass here. To add a pass, write its rules in a file of
its name and give it a position below, with the reason. The file is loaded if the pass may apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.pipeline.plan import rewriting
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.rewriting import Rewriting
from headrace.pipeline.plan.rules import Pass, Promise, Rule

_STAGES = "headrace.pipeline.stages"


def _pass(name: str, promise: Promise, **traits: Any) -> Pass:
    """Return the pass whose rules are in the file of its name."""
    return Pass(name, promise, f"{__name__}.{name}", **traits)


PASSES: tuple[Pass, ...] = (
    # first: every other pass is written against hops and compactions, not against samplers
    _pass("expand_macros", Promise.SAME_BATCHES, optional=False),
    # before all passes that read items, which expect ids of the graph; not optional: batches have ids of one space
    _pass("typed_items", Promise.SAME_BATCHES, optional=False),
    # after expansion, because hops leave edges out; before all passes that read hops; not optional: the plan means it
    _pass(
        "exclude_edges",
        Promise.SAME_BATCHES,
        optional=False,
        needs_module=f"{_STAGES}.exclude_seed_edges",
    ),
    # before all passes that read which stages find nodes; not optional: it is part of the meaning of the source
    _pass("within_boundary", Promise.SAME_BATCHES, optional=False, needs_boundary=True),
    # before all passes that read the place of a batch
    _pass("sample_on_cpu", Promise.SAME_BATCHES, optional=False, needs_module=f"{_STAGES}.copy_to"),
    # before fetches become those of owners, which then read through the caches
    _pass("tiered_cache", Promise.SAME_BATCHES),
    # before fusion, which must not reach across an exchange
    _pass("cooperative", Promise.SAME_UNION, on=False, needs_ranks=True),
    # after cooperation, with which every rank has the adjacency of its frontier; not optional: a rank cannot sample
    # rows that it does not have
    _pass("sample_at_owners", Promise.SAME_UNION, optional=False, needs_ranks=True),
    # likewise for features; not optional: a rank cannot read rows that it does not have
    _pass("fetch_at_owners", Promise.SAME_BATCHES, optional=False, needs_ranks=True),
    # after the passes that insert exchanges
    _pass("fuse_exchange", Promise.SAME_BATCHES, needs_ranks=True),
    # before fusion: hops that are split are not fused
    _pass("split_sample", Promise.SAME_BATCHES, needs_gpu=True),
    # after the split, which inserts the fetch of adjacency
    _pass("graph_cache", Promise.SAME_BATCHES, needs_gpu=True),
    # before prefetch, so that a worker runs whole fused stages
    _pass("fuse_sampling", Promise.SAME_BATCHES),
    # after the passes that route fetches: this process reads the remaining ones
    _pass("feature_cache", Promise.SAME_BATCHES, needs_gpu=True),
    # likewise, and after the caches, through which a GPU reads
    _pass("uva_gather", Promise.SAME_BATCHES, needs_gpu=True),
    # after the passes that route fetches, and before prefetch, which samples during the reads of a window
    _pass("lookahead", Promise.SAME_BATCHES),
    # after every stage that other passes insert
    _pass("prefetch", Promise.SAME_BATCHES),
    # last: it needs a thread before the copy, and adds one after it
    _pass("stream_overlap", Promise.SAME_BATCHES, needs_gpu=True),
)


def rewrite(plan: Plan, machine: Machine, switches: Mapping[str, bool] | None = None) -> Rewriting:
    """Apply the passes; see `headrace.pipeline.plan.rewriting.rewrite`."""
    return rewriting.rewrite(PASSES, plan, machine, switches)


__all__ = ["PASSES", "Pass", "Promise", "Rule", "rewrite"]
