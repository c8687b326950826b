"""The rewriting machinery: a rule is a pattern and a function, a pass is a list of rules.

A rule's function gets the stages that matched, one argument each, and the machine, and returns what shall stand in
their place, or None for "does not apply". It must be pure. A pass applies its rules until none applies. What a rule
with a pattern makes has the origin of the first stage that matched; a rule on the whole plan says by
:meth:`~headrace.pipeline.plan.stage.Stage.made_of` what it makes of which stage.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module

from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.plan.text import render

#: A pass that rewrites more often than this for each stage of the plan it was given is taken to be in a circle.
MOST_REWRITES_PER_STAGE = 100

Window = tuple[Stage, ...]


class Promise(Enum):
    """What a pass leaves unchanged; it selects the test that the pass must stand."""

    SAME_BATCHES = "same batches"
    SAME_UNION = "same union over ranks"


@dataclass(frozen=True, eq=False, repr=False)
class Rule:
    """Replace consecutive stages.

    Parameters
    ----------
    name
        What the rule does, for explain and error messages.
    pattern
        The types of the consecutive stages it looks at; empty for the whole plan, which is the exception: the file of
        such a rule says why.
    rewrite
        Takes these stages, one argument each (the whole plan as a tuple), and the machine; returns their replacement,
        or None if the rule does not apply.
    """

    name: str
    pattern: tuple[type[Stage], ...]
    rewrite: Callable[..., Window | None]


@dataclass(frozen=True, eq=False, repr=False)
class Pass:
    """A named, ordered list of rules with a promise.

    Parameters
    ----------
    name
        Its switch: ``plan.loader(name=False)`` turns it off.
    promise
        What it leaves unchanged.
    given
        Its rules, or the module that has them as ``RULES``, which is loaded when there may be something to do.
    optional
        Whether the plan can run without it.
    on
        Whether it runs where nothing is said.
    needs_gpu
        Whether there is nothing for it to do on a machine without a GPU.
    needs_ranks
        Whether there is nothing for it to do where there is one rank.
    needs_module
        The module of a stage without which there is nothing for it to do: while that is not loaded, no plan holds one.
    """

    name: str
    promise: Promise
    given: tuple[Rule, ...] | str
    optional: bool = True
    on: bool = True
    needs_gpu: bool = False
    needs_ranks: bool = False
    needs_module: str | None = None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Tried in order, wherever they match, until none applies."""
        rules: tuple[Rule, ...] = import_module(self.given).RULES if isinstance(self.given, str) else self.given
        return rules

    def may_apply(self, machine: Machine) -> bool:
        """Whether there may be something to do in a plan for a machine."""
        return (
            (machine.gpus > 0 or not self.needs_gpu)
            and (machine.world_size > 1 or not self.needs_ranks)
            and (self.needs_module is None or self.needs_module in sys.modules)
        )

    def apply(self, plan: Plan, machine: Machine) -> tuple[Plan, tuple[str, ...]]:
        """Return the rewritten plan and the names of the rules that fired, in order.

        Raises
        ------
        PlanError
            If the rules go in a circle.
        """
        if not self.may_apply(machine):
            return plan, ()
        rules = self.rules
        stages = list(plan.stages)
        fired: list[str] = []
        most = MOST_REWRITES_PER_STAGE * len(stages)
        # Where the windows of each rule begin that it has not seen: a rewrite makes new ones only around itself, so
        # that a pass over a chain of like stages is linear in their number.
        unseen = [range(len(stages)) for _ in rules]
        while True:
            step = _step(rules, stages, unseen, machine)
            if step is None:
                return (Plan(stages) if fired else plan), tuple(fired)
            fired.append(step)
            if len(fired) > most:
                raise PlanError(
                    f"pass {self.name}: rule {step!r} is in a circle; the plan is now\n{render(stages, '  ')}"
                )


def _step(rules: tuple[Rule, ...], stages: list[Stage], unseen: list[range], machine: Machine) -> str | None:
    """Apply the first rule that applies, at its first place, and return its name; None if there is none."""
    for number, rule in enumerate(rules):
        length = len(rule.pattern) or len(stages)
        for start in unseen[number]:
            window = tuple(stages[start : start + length])
            # Of a whole plan every stage will do.
            if len(window) == length and all(map(isinstance, window, rule.pattern)):
                replacement = rule.rewrite(*window, machine) if rule.pattern else rule.rewrite(window, machine)
                if replacement is not None:
                    if rule.pattern:
                        replacement = _with_origin(replacement, window)
                    unseen[number] = range(start, len(stages))
                    stages[start : start + length] = replacement
                    _look_again(rules, unseen, start, length, len(replacement))
                    return rule.name
            if not rule.pattern:
                break
        unseen[number] = range(0)
    return None


def _look_again(rules: tuple[Rule, ...], unseen: list[range], start: int, length: int, new_length: int) -> None:
    """Move what rules have not seen by the stages that came or went, and add all that holds a new stage."""
    for number, rule in enumerate(rules):
        old = unseen[number]
        first = 0 if not rule.pattern else max(0, start - len(rule.pattern) + 1)
        # The stage behind the new ones has another upstream, but windows do not look there.
        stop = start + new_length
        if old:
            first, stop = min(first, old.start), max(stop, old.stop + new_length - length)
        unseen[number] = range(first, stop)


def _with_origin(replacement: Window, window: Window) -> Window:
    """Return stages that replace others, the new ones as made of the first of these."""
    old = {id(stage) for stage in window}
    return tuple(
        stage.made_of(window[0]) if id(stage) not in old and stage.origin is stage else stage for stage in replacement
    )
