"""Checkpoints of a loader: a few integers and a fingerprint of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.pipeline.errors import StateError

FORMAT = 1


def make_state(
    *, epoch: int, source: Mapping[str, Any] | None, batch_size: int | None, plan: dict[str, str]
) -> dict[str, Any]:
    """Return a loader's state: the epoch, the source's position in it (None: its beginning), and what it fits."""
    return {"format": FORMAT, "epoch": epoch, "source": source, "batch_size": batch_size, "plan": dict(plan)}


def check_state(state: Mapping[str, Any], *, batch_size: int | None, plan: dict[str, str]) -> None:
    """Refuse a state that another plan made.

    Raises
    ------
    StateError
        Naming the first stage that differs.
    """
    if not isinstance(state, Mapping) or not {"format", "epoch", "source", "batch_size", "plan"} <= set(state):
        raise StateError("this is not the state of a headrace loader: pass what loader.state_dict() returned")
    if state["format"] != FORMAT:
        raise StateError(f"the state has format {state['format']}; this version reads format {FORMAT}")
    theirs = state["plan"]
    if list(theirs) != list(plan):
        raise StateError(
            f"the state is of another plan: its stages are {', '.join(theirs)}; this plan has {', '.join(plan)}"
        )
    for stage, digest in plan.items():
        if theirs[stage] != digest:
            raise StateError(
                f"the state is of another plan: stage {stage} differs (its parameters, or the data it was given). "
                f"Build the plan as it was, or start anew without load_state_dict"
            )
    if state["batch_size"] != batch_size:
        raise StateError(
            f"the state counts batches of {state['batch_size']} items over all ranks, this loader makes batches of "
            f"{batch_size}; set batch_size (not batch_size_per_rank) to resume with another number of ranks"
        )
