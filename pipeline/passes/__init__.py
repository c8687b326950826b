"""The passes, in the one order in which they run.

Each switch of ``plan.loader(...)`` has the name of an optional pass here. To add a pass, write its rules in a file of
its own and give it a position below with the reason for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.pipeline.passes.cooperative import COOPERATIVE
from headrace.pipeline.passes.exclude_edges import EXCLUDE_EDGES
from headrace.pipeline.passes.expand_macros import EXPAND_MACROS
from headrace.pipeline.passes.feature_cache import FEATURE_CACHE
from headrace.pipeline.passes.fetch_at_owners import FETCH_AT_OWNERS
from headrace.pipeline.passes.fuse_exchange import FUSE_EXCHANGE
from headrace.pipeline.passes.fuse_sampling import FUSE_SAMPLING
from headrace.pipeline.passes.graph_cache import GRAPH_CACHE
from headrace.pipeline.passes.lookahead import LOOKAHEAD
from headrace.pipeline.passes.prefetch import PREFETCH
from headrace.pipeline.passes.sample_at_owners import SAMPLE_AT_OWNERS
from headrace.pipeline.passes.sample_on_cpu import SAMPLE_ON_CPU
from headrace.pipeline.passes.split_sample import SPLIT_SAMPLE
from headrace.pipeline.passes.stream_overlap import STREAM_OVERLAP
from headrace.pipeline.passes.tiered_cache import TIERED_CACHE
from headrace.pipeline.passes.typed_items import TYPED_ITEMS
from headrace.pipeline.passes.uva_gather import UVA_GATHER
from headrace.pipeline.passes.within_boundary import WITHIN_BOUNDARY
from headrace.pipeline.plan import rewriting
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.rewriting import Rewriting
from headrace.pipeline.plan.rules import Pass, Promise, Rule

PASSES: tuple[Pass, ...] = (
    EXPAND_MACROS,  # first: every other pass is written against hops and compactions, not against samplers
    TYPED_ITEMS,  # before all that asks for items: it asks in the ids of the graph
    EXCLUDE_EDGES,  # behind it, as hops leave edges out; before all that asks what hops do
    WITHIN_BOUNDARY,  # before all that asks who finds nodes, and how
    SAMPLE_ON_CPU,  # before all that asks where a batch is
    TIERED_CACHE,  # before fetches become those of owners, which read through the caches then
    COOPERATIVE,  # before fusion, which must not reach across an exchange
    SAMPLE_AT_OWNERS,  # behind cooperation, by which every rank has the rows of its frontier
    FETCH_AT_OWNERS,  # likewise for features
    FUSE_EXCHANGE,  # behind what inserts exchanges
    SPLIT_SAMPLE,  # before fusion: hops that are split are not fused
    GRAPH_CACHE,  # behind the split, which says whose rows are fetched
    FUSE_SAMPLING,  # before prefetch, so that whole fused stages are handed to a worker
    FEATURE_CACHE,  # behind those that route fetches: what is left is read by this process
    UVA_GATHER,  # likewise, and a GPU reads through its caches
    LOOKAHEAD,  # behind those that route fetches, and before prefetch, which samples while a window's rows are read
    PREFETCH,  # it has to stand behind everything that others insert
    STREAM_OVERLAP,  # last: it needs a thread before the copy, and puts one behind
)


def rewrite(plan: Plan, machine: Machine, switches: Mapping[str, bool] | None = None) -> Rewriting:
    """Apply the passes; see `headrace.pipeline.plan.rewriting.rewrite`."""
    return rewriting.rewrite(PASSES, plan, machine, switches)


__all__ = [
    "COOPERATIVE",
    "EXCLUDE_EDGES",
    "EXPAND_MACROS",
    "FEATURE_CACHE",
    "FETCH_AT_OWNERS",
    "FUSE_EXCHANGE",
    "FUSE_SAMPLING",
    "GRAPH_CACHE",
    "LOOKAHEAD",
    "PASSES",
    "PREFETCH",
    "SAMPLE_AT_OWNERS",
    "SAMPLE_ON_CPU",
    "SPLIT_SAMPLE",
    "STREAM_OVERLAP",
    "TIERED_CACHE",
    "TYPED_ITEMS",
    "UVA_GATHER",
    "WITHIN_BOUNDARY",
    "Pass",
    "Promise",
    "Rule",
    "rewrite",
]
