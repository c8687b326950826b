"""Verbs: the methods by which plans chain stages."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from headrace.ops.errors import PlanError
from headrace.pipeline.data.later import VERBS, LaterMethod
from headrace.pipeline.plan.arguments import check_arguments
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.stage import Stage

S = TypeVar("S", bound="type[Stage]")


def verb(name: str) -> Callable[[S], S]:
    """Register a stage class under a method name of every plan.

    ``plan.name(*args, **kwargs)`` then returns the plan with ``StageClass(*args, **kwargs)`` appended.

    Raises
    ------
    PlanError
        If the name is taken.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise PlanError(f'verb: expected the name of a method, got {name!r}; write @hr.verb("name")')

    def register(stage: S) -> S:
        there = inspect.getattr_static(Plan, name, None)
        if there is not None and not (isinstance(there, LaterMethod) and there.module == stage.__module__):
            raise PlanError(f"cannot register {stage.__name__}: plans already have a method or attribute {name!r}")

        def method(self: Plan, *args: Any, **kwargs: Any) -> Plan:
            check_arguments(name, stage.__init__, args, kwargs, complete=True)
            return self.then(stage(*args, **kwargs))

        method.__name__ = name
        method.__qualname__ = f"Plan.{name}"
        method.__doc__ = stage.__doc__
        method.__wrapped__ = stage  # type: ignore[attr-defined]
        method.__signature__ = _signature(stage)  # type: ignore[attr-defined]
        setattr(Plan, name, method)
        stage.name = name
        return stage

    return register


def verbs() -> tuple[str, ...]:
    """Return the registered method names, sorted."""
    added = {name for name, method in vars(Plan).items() if hasattr(method, "__wrapped__")}
    return tuple(sorted(added | VERBS.keys()))


def _signature(stage: type[Stage]) -> inspect.Signature:
    """Return the parameters of a stage as those of a method that returns a plan, for help() and completion."""
    made = inspect.signature(stage.__init__)
    return made.replace(return_annotation="Plan")
