"""Checkpoints of a loader: a few integers and a fingerprint of the plan."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.pipeline.plan.errors import StateError
from headrace.pipeline.plan.source import LARGEST_SEED

FORMAT = 1

#: Epochs are 32-bit words of the random streams' counters.
LAST_EPOCH = (1 << 32) - 1


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
    if not isinstance(state, Mapping) or not {"format", "epoch", "source", "batch_size", "plan"} <= set(state):
        raise StateError(
            f"expected the state of a headrace loader, got {type(state).__name__}; pass what loader.state_dict() "
            "returned"
        )
    _check_whole("format", state["format"], None)
    if state["format"] != FORMAT:
        raise StateError(f"the state has format {state['format']}; this version reads format {FORMAT}")
    if "seed" in state:  # older states have none
        _check_whole("seed", state["seed"], LARGEST_SEED)
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
        _check_whole("batch_size", state["batch_size"], None)
    if state["batch_size"] != batch_size and None in (state["batch_size"], batch_size):
        raise StateError(
            "the state is of another plan: batches of a number of items and batches cut otherwise, as by a budget, are "
            "not the same; build the plan as it was"
        )
    if state["batch_size"] != batch_size:
        raise StateError(
            f"the state counts batches of {state['batch_size']} items over all ranks, this loader makes batches of "
            f"{batch_size}; set batch_size (not batch_size_per_rank) to resume with another number of ranks"
        )
    for stage, digest in plan.items():
        if theirs[stage] != digest:
            seeds = "" if state.get("seed", seed) == seed else f", whose seed was {state['seed']!r} and now is {seed}"
            raise StateError(
                f"the state is of another plan: stage {stage} differs (its parameters{seeds}, or the data it was "
                f"given). Build the plan as it was, or start anew without load_state_dict"
            )
    _check_whole("epoch", state["epoch"], LAST_EPOCH)
    source = state["source"]
    if source is not None:
        if not isinstance(source, Mapping) or "batch" not in source:
            raise StateError(f"expected the state's source to be None or hold a batch, got {source!r}")
        _check_whole("batch", source["batch"], count(int(state["epoch"])))


def _order(state: Mapping[str, Any]) -> list[Any]:
    """Return the names of the stages of a state's plan, in the order of the plan."""
    stages = state.get("stages", state["plan"])
    return list(stages) if isinstance(stages, (Mapping, Sequence)) else [stages]


def _check_whole(name: str, value: Any, largest: int | None) -> None:
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # tensors of several numbers raise the latter two
        number = None
    if number is None or number < 0 or (largest is not None and number > largest):
        limit = "" if largest is None else f" and at most {largest}"
        raise StateError(f"expected the state's {name} to be an integer of at least 0{limit}, got {value!r}")
