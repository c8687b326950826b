"""Stages of users' classes: their runners run through a check of what they return."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import PlanError
from headrace.pipeline.data import MiniBatch
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.checks import as_counts
from headrace.pipeline.data.own_methods import check_methods, check_takes
from headrace.pipeline.plan.checks import check_name
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.source import SourceStage, check_source
from headrace.pipeline.plan.stage import MINIBATCH, PADDED, MacroStage, MapStage, Stage, WindowRunner
from headrace.pipeline.plan.users_hops import misfit_of, misfit_of_blocks

_FIELDS = tuple(field.name for field in dataclasses.fields(MiniBatch))


def check_declared(stage: Stage) -> None:
    """Refuse a stage of a user's class that declares what passes cannot read, before work starts.

    Raises
    ------
    PlanError
        Naming the class and the member.
    """
    kind, name = type(stage).__name__, check_name(stage)
    check_methods(stage, _base_of(type(stage)), kind, PlanError)
    if isinstance(stage, SourceStage):
        check_source(stage)
    if isinstance(stage, MacroStage):
        checked_parts(stage)
    for member in ("reads", "writes"):
        fields = getattr(stage, member)
        if not isinstance(fields, frozenset | set) or not fields.issubset(_FIELDS):
            raise PlanError(
                f"{name}: expected {kind}.{member} to be a frozenset of names of fields of a batch, got {fields!r}; "
                f"they are {', '.join(_FIELDS)}"
            )


def _base_of(kind: type[Stage]) -> type:
    """Return the class of headrace that a class of stages is made of."""
    ours = (one for one in kind.__mro__ if issubclass(one, Stage) and one.__module__.partition(".")[0] == "headrace")
    return next(ours)


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


def checked_runner(stage: MapStage, run: Any, *, is_last: bool) -> Any:
    """Return the runner of a stage of a user, with a check of each batch and of its counts.

    The last stage of a plan may return anything but None: nothing follows that reads it.

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
            f"{type(run).__name__}; see help(hr.ext.MapStage)"
        )
    check_takes(run, f"what {name}.runner returns", PlanError, "batch", *["epoch", "index"][: 2 * stage.keyed])
    writes = None if is_last else frozenset(stage.writes)
    is_whole = not is_last or stage.num_hops > 0
    gives_batch = not is_last and stage.gives in (None, MINIBATCH, PADDED)

    def checked(before: Any, *where: int) -> Any:
        returned = run(before, *where)
        if not isinstance(returned, tuple) or len(returned) != 2:
            return returned  # which is refused for all stages
        behind, counts = returned
        if behind is not before:
            if isinstance(behind, MiniBatch):
                if isinstance(before, MiniBatch):
                    if (problem := misfit_of(stage, before, behind)) is not None:
                        raise PlanError(f"expected {name}{problem}")
                    _check_changes(name, writes, before, behind)
                    if (problem := misfit_of_blocks(before, behind, is_whole=is_whole)) is not None:
                        raise PlanError(f"expected {name} to return {problem}")
            elif behind is None or (gives_batch and isinstance(before, MiniBatch)):
                raise PlanError(
                    f"expected {name} to return a MiniBatch and its counts, got {type(behind).__name__}; return "
                    "batch.replace(...), {}, or name in its gives what else a later stage takes"
                )
        return behind, as_counts(counts, name, PlanError)

    return checked


#: Fields that key what later stages draw: a change that passes do not know of would make wrong batches.
_KEYS = ("seeds", "n_id", "epoch", "index")


def _check_changes(name: str, writes: frozenset[str] | None, before: MiniBatch, behind: MiniBatch) -> None:
    """Refuse changes that later stages, or a model, would not see: of keys that are not declared, and of rows alone.

    Without `writes` no stage follows that would take keys.
    """
    if writes is not None:
        changed = [field for field in _KEYS if _is_another(getattr(before, field), getattr(behind, field))]
        undeclared = [field for field in changed if field not in writes]
        if undeclared and (before.y is not None or before.blocks or before.node or {"epoch", "index"} & {*undeclared}):
            raise PlanError(
                f"expected {name} to change the fields of a batch that its writes names, {sorted(writes)}, but "
                f"{' and '.join(undeclared)} changed as well; add {', '.join(map(repr, undeclared))} to writes, by "
                "which passes and later stages know"
            )
        for field in changed:
            ids = getattr(behind, field)
            if field in ("seeds", "n_id") and (
                not isinstance(ids, Tensor)
                or ids.dtype != torch.int64
                or ids.ndim == 0
                or (field == "n_id" and ids.ndim > 1)
            ):
                raise PlanError(
                    f"expected {name} to return {field} of int64, got {describe(ids)}; pass ids.to(torch.int64)"
                )
    if not behind.exchanges:  # ranks that share a batch have rows for each other
        problem = _misfit(before, behind)
        if problem is not None:
            raise PlanError(f"expected {name} to return {problem}")


def _is_another(old: Any, new: Any) -> bool:
    """Whether a field has other values; a copy on another device has the same."""
    if new is old:
        return False
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        is_alike = old.dtype == new.dtype and old.shape == new.shape
        return not is_alike or (old.device == new.device and not torch.equal(old, new))
    return type(new) is not type(old) or bool(new != old)


def _misfit(before: MiniBatch, behind: MiniBatch) -> str | None:
    """Return which rows had an entry for each node, or seed, and have not any more; None where all have."""
    if behind.node is not before.node or behind.n_id is not before.n_id:
        num_nodes = _length(behind.n_id)
        for feature, old in before.node.items():
            rows = behind.node.get(feature)
            if not isinstance(feature, str) or not isinstance(rows, Tensor) or _length(old) != _length(before.n_id):
                continue
            if _length(rows) != num_nodes:
                return f"a row of node[{feature!r}] for each of the {num_nodes} n_id, got {describe(rows)}; change both"
    if behind.y is not before.y or behind.seeds is not before.seeds:
        labels, seeds = _length(behind.y), _length(behind.seeds)
        was_aligned = _length(before.y) == _length(before.seeds)
        # Labels of the whole batch, or of more than its seeds, are a user's own.
        if labels is not None and seeds is not None and was_aligned and labels != 1 and labels < seeds:
            return f"a row of y for each of the {seeds} seeds, got {describe(behind.y)}; change both"
    return None


def _length(rows: Any) -> int | None:
    """Return the number of rows of a tensor; None of anything else."""
    return rows.shape[0] if isinstance(rows, Tensor) and rows.ndim else None
