"""The passes, in the one order in which they run.

Each switch of ``plan.loader(...)`` has the name of an optional pass here. To add a pass, write its rules in a file of
its own and give it a position below with the reason for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.pipeline.passes.cooperative import COOPERATIVE
from headrace.pipeline.passes.expand_macros import EXPAND_MACROS
from headrace.pipeline.passes.fetch_at_owners import FETCH_AT_OWNERS
from headrace.pipeline.passes.fuse_exchange import FUSE_EXCHANGE
from headrace.pipeline.passes.fuse_sampling import FUSE_SAMPLING
from headrace.pipeline.passes.prefetch import PREFETCH
from headrace.pipeline.passes.sample_at_owners import SAMPLE_AT_OWNERS
from headrace.pipeline.plan import rewriting
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.rewriting import Rewriting
from headrace.pipeline.plan.rules import Pass, Promise, Rule

PASSES: tuple[Pass, ...] = (
    EXPAND_MACROS,  # first: every other pass is written against hops and compactions, not against samplers
    COOPERATIVE,  # before fusion, which must not reach across an exchange
    SAMPLE_AT_OWNERS,  # behind cooperation, by which every rank has the rows of its frontier
    FETCH_AT_OWNERS,  # likewise for features
    FUSE_EXCHANGE,  # behind what inserts exchanges
    FUSE_SAMPLING,  # before prefetch, so that whole fused stages are handed to a worker
    PREFETCH,  # last: it has to stand behind everything that others insert
)


def rewrite(plan: Plan, machine: Machine, switches: Mapping[str, bool] | None = None) -> Rewriting:
    """Apply the passes; see `headrace.pipeline.plan.rewriting.rewrite`."""
    return rewriting.rewrite(PASSES, plan, machine, switches)


__all__ = [
    "COOPERATIVE",
    "EXPAND_MACROS",
    "FETCH_AT_OWNERS",
    "FUSE_EXCHANGE",
    "FUSE_SAMPLING",
    "PASSES",
    "PREFETCH",
    "SAMPLE_AT_OWNERS",
    "Pass",
    "Promise",
    "Rule",
    "rewrite",
]
