"""Checkpoints of a loader: a few integers, a fingerprint of the plan, and the seed of plans that were given none."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.ops.errors import StateError
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.data.checks import check_depth
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.source import LARGEST_SEED, LAST_EPOCH, SourceStage

FORMAT = 1


def make_state(
    *,
    epoch: int,
    source: Mapping[str, Any] | None,
    batch_size: int | None,
    seed: int,
    num_ranks: int | None,
    plan: dict[str, str],
) -> dict[str, Any]:
    """Return a loader's state: the epoch, the source's position in it (None: its beginning), and what it fits.

    The seed is in the digests of the plan, too. It is named for plans that were given none, which go on with this one.
    `num_ranks` are those that brought items of their own; None where all ranks bring the same.
    """
    state = {
        "format": FORMAT,
        "epoch": epoch,
        "source": source,
        "batch_size": batch_size,
        "seed": seed,
        "plan": dict(plan),
        # Said a second time, as YAML and JSON may sort the keys of a mapping. Older states do not say it.
        "stages": list(plan),
    }
    return state if num_ranks is None else {**state, "ranks": num_ranks}


def check_state(
    state: Mapping[str, Any],
    *,
    count: Callable[[int], int | None],
    batch_size: int | None,
    seed: int,
    num_ranks: int | None,
    plan: dict[str, str],
) -> None:
    """Refuse a state that another plan made, or that no loader made; `count` returns how many batches an epoch has.

    Raises
    ------
    StateError
        Naming the first stage that differs, or the value that cannot be.
    """
    if isinstance(state, (str, bytes)):
        raise StateError("expected what loader.state_dict() returned, got text; read it first, as with json.loads")
    check_depth(state, "the state of a loader", StateError)
    if not isinstance(state, Mapping) or not {"format", "epoch", "source", "batch_size", "plan"} <= set(state):
        raise StateError(
            f"expected the state of a headrace loader, got {type(state).__name__}; pass what loader.state_dict() "
            "returned"
        )
    whole_number(state["format"], "the state's format", 0, StateError)
    if state["format"] != FORMAT:
        raise StateError(
            f"expected a state of format {FORMAT}, got one of format {state['format']}; load it with the headrace that "
            "saved it, or begin the epoch anew"
        )
    if "seed" in state:  # older states have none
        whole_number(state["seed"], "the state's seed", 0, StateError, LARGEST_SEED)
    theirs = state["plan"]
    if not isinstance(theirs, Mapping) or theirs.keys() != plan.keys() or _order(state) != list(plan):
        names = ", ".join(map(str, _order(state))) if isinstance(theirs, Mapping) else repr(theirs)
        raise StateError(f"the state is of another plan: its stages are {names}; this plan has {', '.join(plan)}")
    theirs_ranks = state.get("ranks")
    if theirs_ranks != num_ranks:
        came, expected = (
            f"{one} ranks with items of their own" if one else "ranks with the same items"
            for one in (theirs_ranks, num_ranks)
        )
        raise StateError(
            f"expected a state of {expected}, got one of {came}: items_per_rank=True makes other batches then; resume "
            "with as many ranks and the same items, or start anew without load_state_dict"
        )
    if state["batch_size"] is not None:
        whole_number(state["batch_size"], "the state's batch_size", 0, StateError)
    if state["batch_size"] != batch_size and None in (state["batch_size"], batch_size):
        raise StateError(
            "the state is of another plan: batches of a number of items and batches cut otherwise, as by a budget, are "
            "not the same; build the plan as it was"
        )
    if state["batch_size"] != batch_size:
        raise StateError(
            f"expected a state of batches of {batch_size} items over all ranks, got one of {state['batch_size']}; make "
            f"the loader with batch_size={state['batch_size']}, which counts the items of all ranks together"
        )
    for stage, digest in plan.items():
        if theirs[stage] != digest:
            stated, seeds, advice = state.get("seed", seed), "", ""
            if stated != seed:
                seeds, advice = f", whose seed was {stated!r} and now is {seed}", f", with seed={stated!r}"
            raise StateError(
                f"the state is of another plan: stage {stage} differs (its parameters{seeds}, or the data it was "
                f"given). Build the plan as it was{advice}, or start anew without load_state_dict"
            )
    whole_number(state["epoch"], "the state's epoch", 0, StateError, LAST_EPOCH)
    source = state["source"]
    if source is not None:
        if not isinstance(source, Mapping) or "batch" not in source:
            raise StateError(f"expected the state's source to be None or hold a batch, got {source!r}")
        whole_number(source["batch"], "the state's batch", 0, StateError, count(int(state["epoch"])))


def _order(state: Mapping[str, Any]) -> list[Any]:
    """Return the names of the stages of a state's plan, in the order of the plan."""
    stages = state.get("stages", state["plan"])
    return list(stages) if isinstance(stages, (Mapping, Sequence)) else [stages]


def with_seed_of_state(plan: Plan, state: object) -> Plan:
    """Return the plan with the seed of a loader's state, or as it is where its source was given one.

    States of older versions hold none. A plan to which none was given had seed 0 then.
    """
    source = plan.stages[0]
    if not isinstance(source, SourceStage) or source.seed_given:
        return plan
    seed = seed_of_state(state, 0)
    return plan if seed is None else with_seed(plan, seed)


def seed_of_state(state: object, absent: int) -> int | None:
    """Return the seed of a loader's state, `absent` where it holds none; None for what is no seed, or no state."""
    stated: Any = state.get("seed", absent) if isinstance(state, Mapping) else None
    try:
        seed = -1 if isinstance(stated, bool) else operator.index(stated)
    except TypeError:
        return None  # the state is refused when it is checked
    return seed if 0 <= seed <= LARGEST_SEED else None


def with_seed(plan: Plan, seed: int) -> Plan:
    """Return the plan with another seed, which still counts as one that was not given."""
    source, *others = plan.stages
    if isinstance(source, SourceStage) and source.seed == seed:
        return plan
    other = dataclasses.replace(source, seed=seed)  # type: ignore[call-arg] # a stage without a seed has none to settle
    object.__setattr__(other, "seed_given", False)
    return Plan([other, *others])
