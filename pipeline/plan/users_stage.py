"""Stages of users' classes: their runners run through a check of what they return."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import PlanError
from headrace.pipeline.data import MiniBatch
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.checks import as_counts
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.source import SourceStage, check_source
from headrace.pipeline.plan.stage import MINIBATCH, PADDED, MacroStage, MapStage, Stage, WindowRunner

_FIELDS = tuple(field.name for field in dataclasses.fields(MiniBatch))


def check_declared(stage: Stage) -> None:
    """Refuse a stage of a user's class that declares what passes cannot read, before work starts.

    Raises
    ------
    PlanError
        Naming the class and the member.
    """
    kind = type(stage).__name__
    name = getattr(stage, "name", None)
    if not isinstance(name, str) or not name:
        raise PlanError(
            f"expected {kind}.name to be the name of the stage in texts and checkpoints, got {name!r}; write name = "
            f"{kind.lower()!r} in the class, or give it a verb by hr.verb"
        )
    if isinstance(stage, SourceStage):
        check_source(stage)
    for member in ("reads", "writes"):
        fields = getattr(stage, member)
        if not isinstance(fields, frozenset | set) or not fields.issubset(_FIELDS):
            raise PlanError(
                f"{name}: expected {kind}.{member} to be a frozenset of names of fields of a batch, got {fields!r}; "
                f"they are {', '.join(_FIELDS)}"
            )


def checked_parts(macro: MacroStage) -> tuple[Stage, ...]:
    """Return what a macro stage expands to.

    Raises
    ------
    PlanError
        If that are not stages that follow a source.
    """
    parts = macro.parts()
    wrong: Any = parts
    if isinstance(parts, tuple | list):
        odd = [one for one in parts if not isinstance(one, Stage) or isinstance(one, Plan)]
        if not odd:
            return tuple(parts)
        wrong = odd[0]
    raise PlanError(
        f"{macro.name}: expected {type(macro).__name__}.parts to return a tuple of stages behind a source, got "
        f"{type(wrong).__name__}; return the stages that it stands for"
    )


def checked_runner(stage: MapStage, run: Any) -> Any:
    """Return the runner of a stage of a user, with a check of each batch and of its counts.

    Raises
    ------
    PlanError
        If it is no function.
    """
    if isinstance(run, WindowRunner):
        return run
    name = type(stage).__name__
    if not callable(run):
        raise PlanError(
            f"expected {name}.runner to return a function from a batch to a batch and its counts, got "
            f"{type(run).__name__}; see help(hr.MapStage)"
        )
    writes = frozenset(stage.writes)

    def checked(before: Any, *where: int) -> Any:
        returned = run(before, *where)
        if not isinstance(returned, tuple) or len(returned) != 2:
            return returned  # which is refused for all stages
        behind, counts = returned
        if isinstance(before, MiniBatch) and stage.gives in (None, MINIBATCH, PADDED):
            if not isinstance(behind, MiniBatch):
                raise PlanError(
                    f"expected {name} to return a MiniBatch and its counts, got {type(behind).__name__}; return "
                    "batch.replace(...), {}"
                )
            if behind is not before:
                _check_changes(name, writes, before, behind)
        elif behind is None:
            raise PlanError(f"expected {name} to return what it makes of a batch, and its counts, got None")
        return behind, as_counts(counts, name, PlanError)

    return checked


def _check_changes(name: str, writes: frozenset[str], before: MiniBatch, behind: MiniBatch) -> None:
    """Refuse fields that were changed and not declared, and such as do not fit the batch."""
    old, new = before.__dict__, behind.__dict__
    changed = [field for field in _FIELDS if new[field] is not old[field]]
    for field in changed:
        if field not in writes and not _is_harmless(field, before, behind):
            raise PlanError(
                f"expected {name} to change the fields of a batch that its writes names, {sorted(writes)}, got another "
                f"{field}; add {field!r} to writes, by which passes and later stages know"
            )
    problem = _problem(behind, changed)
    if problem is not None:
        raise PlanError(f"expected {name} to return {problem}")


def _is_harmless(field: str, before: MiniBatch, behind: MiniBatch) -> bool:
    """Whether a field may change that a stage does not name: equal values, and seeds of which nothing is known yet."""
    old, new = getattr(before, field), getattr(behind, field)
    if field == "seeds":
        return before.y is None and not before.blocks and not before.node
    if field in ("node", "edge"):
        return old.keys() == new.keys() and all(new[name] is old[name] for name in old)
    return not isinstance(new, Tensor) and type(new) is type(old) and bool(new == old)


def _problem(batch: MiniBatch, changed: list[str]) -> str | None:
    """Return what a batch should have in the fields that changed, and has; None where they fit."""
    if "seeds" in changed and (batch.seeds.dtype != torch.int64 or batch.seeds.ndim == 0):
        return f"seeds of int64[num_seeds], got {describe(batch.seeds)}; pass ids.to(torch.int64)"
    n_id = batch.n_id
    if "n_id" in changed and (not isinstance(n_id, Tensor) or n_id.dtype != torch.int64 or n_id.ndim != 1):
        return f"n_id of int64[num_nodes], got {describe(n_id)}; pass ids.to(torch.int64)"
    if batch.exchanges or not {"node", "n_id", "y", "seeds"}.intersection(changed):
        return None  # ranks that share a batch have rows for each other
    if "y" in changed and not isinstance(batch.y, Tensor | Mapping | None):
        return f"y as a tensor, by type in a dictionary, or None, got {describe(batch.y)}"
    rows = {f"node[{name!r}]": (one, "n_id") for name, one in batch.node.items() if isinstance(name, str)}
    if batch.y is not None and isinstance(batch.y, Tensor):
        rows["y"] = batch.y, "seeds"
    for what, (one, field) in rows.items():
        num_rows = len(getattr(batch, field))
        if not isinstance(one, Tensor) or one.ndim == 0 or len(one) != num_rows:
            return f"a row of {what} for each of the {num_rows} {field}, got {describe(one)}; change both"
    return None
