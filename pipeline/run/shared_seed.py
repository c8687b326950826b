"""The seed of a plan to which none was given: torch's, but that of rank 0 on all ranks, and that of a checkpoint."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping

from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.source import LARGEST_SEED, SourceStage


def with_seed_of_state(plan: Plan, state: object) -> Plan:
    """Return the plan with the seed of a loader's state, or as it is where its source was given one.

    States of older versions hold none. A plan to which none was given had seed 0 then.
    """
    source = plan.stages[0]
    if not isinstance(source, SourceStage) or source.seed_given or not isinstance(state, Mapping):
        return plan
    stated = state.get("seed", 0)
    try:
        seed = -1 if isinstance(stated, bool) else operator.index(stated)
    except TypeError:
        return plan  # whose fingerprint will not fit, as below
    return with_seed(plan, seed) if 0 <= seed <= LARGEST_SEED else plan


def with_seed(plan: Plan, seed: int) -> Plan:
    """Return the plan with another seed, which still counts as one that was not given."""
    source, *others = plan.stages
    if isinstance(source, SourceStage) and source.seed == seed:
        return plan
    other = dataclasses.replace(source, seed=seed)  # type: ignore[call-arg] # a stage without a seed has none to settle
    object.__setattr__(other, "seed_given", False)
    return Plan([other, *others])
