"""Passes of users: what is wrong with what they are made of."""

from __future__ import annotations

from typing import Any

from headrace.ops.errors import PlanError
from headrace.pipeline.data.own_methods import check_takes
from headrace.pipeline.plan.rules import Pass, Promise, Rule
from headrace.pipeline.plan.stage import Stage

#: How functions of rules may call the stages that match.
_NUMBERS = ("first", "second", "third", "fourth", "fifth", "sixth")


def odd_pattern(rule: Rule) -> PlanError:
    """Return the error for a pattern that has other things than types of stages."""
    pattern: Any = rule.pattern
    expected = f"rule {rule.name!r}: expected pattern to be a tuple of types of stages, or ... for a gap"
    if not isinstance(pattern, tuple):
        return PlanError(f"{expected}, got {_named(pattern)}; pass ({_named(pattern)},)")
    odd = next(one for one in pattern if one is not ... and not (isinstance(one, type) and issubclass(one, Stage)))
    if isinstance(odd, Stage):
        kind = type(odd).__name__
        return PlanError(f"{expected}, got an instance of {kind} in it; pass {kind}")
    return PlanError(f"{expected}, got {_named(odd)} in it; pass subclasses of hr.ext.Stage")


def odd_pass(given: Pass) -> PlanError:
    """Return the error for a pass whose parts are of other types than they should be."""
    rules: Any = given.rules
    if not isinstance(given.promise, Promise):
        return PlanError(
            f"Pass: expected promise to be an hr.ext.Promise, what the pass leaves unchanged, got {given.promise!r}; "
            "pass hr.ext.Promise.SAME_BATCHES, or SAME_UNION"
        )
    odd = next((one for one in rules if not isinstance(one, Rule)), None) if isinstance(rules, tuple) else rules
    where = " in it" if isinstance(rules, tuple) else ""
    return PlanError(
        f"Pass: expected rules to be a tuple of hr.ext.Rule, got {type(odd).__name__}{where}; pass (rule,)"
    )


def check_rewrites(name: str, given: Pass) -> None:
    """Refuse a pass with a function that does not take what its rule calls it with.

    Raises
    ------
    PlanError
        Naming the rule and the pass.
    """
    for rule in given.rules:
        stages = [*_NUMBERS, *map(str, range(len(rule.pattern)))][: len(rule.pattern)]
        stages = stages if len(stages) > 1 else ["stage"] if stages else ["stages"]
        check_takes(
            rule.rewrite, f"rewrite of rule {rule.name!r} in pass {name}", PlanError, *stages, "facts", "machine"
        )


def _named(value: Any) -> str:
    return (
        value.__name__ if isinstance(value, type) else repr(value) if isinstance(value, str) else type(value).__name__
    )
