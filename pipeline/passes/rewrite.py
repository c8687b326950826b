"""The rewriting machinery: a rule is a pattern and a function, a pass is a list of rules.

A rule's function sees the stages that matched and the machine, and returns what shall stand in their place, or None for
"does not apply". It must be pure. A pass applies its rules until none applies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from headrace.pipeline.errors import PlanError
from headrace.pipeline.machine import Machine
from headrace.pipeline.plan import chain, render, stages_of
from headrace.pipeline.stage import Stage

#: A pass that rewrites more often than this for each stage of the plan it was given is taken to be in a circle.
MOST_REWRITES_PER_STAGE = 100

Window = tuple[Stage, ...]


class Promise(Enum):
    """What a pass leaves unchanged; it selects the test that the pass must stand."""

    SAME_BATCHES = "same batches"
    SAME_UNION = "same union over ranks"


@dataclass(frozen=True)
class Rule:
    """Replace consecutive stages.

    Parameters
    ----------
    name
        What the rule does, for explain and error messages.
    pattern
        The types of the consecutive stages it looks at; empty for the whole plan.
    rewrite
        Takes these stages and the machine; returns their replacement, or None if the rule does not apply.
    """

    name: str
    pattern: tuple[type[Stage], ...]
    rewrite: Callable[[Window, Machine], Window | None]


@dataclass(frozen=True)
class Pass:
    """A named, ordered list of rules with a promise.

    Parameters
    ----------
    name
        Its switch: ``plan.loader(name=False)`` turns it off.
    promise
        What it leaves unchanged.
    rules
        Tried in order, wherever they match, until none applies.
    optional
        Whether the plan can run without it.
    on
        Whether it runs where nothing is said.
    """

    name: str
    promise: Promise
    rules: tuple[Rule, ...]
    optional: bool = True
    on: bool = True

    def apply(self, plan: Stage, machine: Machine) -> tuple[Stage, tuple[str, ...]]:
        """Return the rewritten plan and the names of the rules that fired, in order.

        Raises
        ------
        PlanError
            If the rules go in a circle.
        """
        fired: list[str] = []
        most = MOST_REWRITES_PER_STAGE * len(stages_of(plan))
        while True:
            step = self._step(plan, machine)
            if step is None:
                return plan, tuple(fired)
            plan, rule = step
            fired.append(rule)
            if len(fired) > most:
                raise PlanError(
                    f"pass {self.name}: rule {rule!r} is in a circle; the plan is now\n{render(plan, '  ')}"
                )

    def _step(self, plan: Stage, machine: Machine) -> tuple[Stage, str] | None:
        stages = stages_of(plan)
        for rule in self.rules:
            length = len(rule.pattern) or len(stages)
            for start in range(len(stages) - length + 1):
                window = stages[start : start + length]
                if all(map(isinstance, window, rule.pattern)):  # of a whole plan every stage will do
                    replacement = rule.rewrite(window, machine)
                    if replacement is not None:
                        return chain((*stages[:start], *replacement, *stages[start + length :])), rule.name
        return None
