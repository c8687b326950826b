"""The rewriting machinery: a rule is a pattern and a function, a pass is a list of rules.

The function of a rule is pure. It gets the stages that match, one argument each, the facts before the first of them
(:class:`~headrace.pipeline.plan.facts.Facts`) and the machine. It returns their replacement, or None if the rule does
not apply. A pass applies its rules until none applies. New stages of a rule with a pattern have the origin of the first
stage that matches; a rule on the whole plan sets origins by :meth:`~headrace.pipeline.plan.stage.Stage.made_of`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module
from types import EllipsisType
from typing import Any, cast

from headrace.pipeline.plan.errors import PlanError, UsageError
from headrace.pipeline.plan.facts import Facts
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.plan.text import render

#: More rewrites than this per stage of the given plan mean that the rules of a pass do not terminate.
MOST_REWRITES_PER_STAGE = 100

Window = tuple[Stage, ...]


class Promise(Enum):
    """The promise of a pass: what it leaves unchanged. It selects the test that the pass must pass."""

    SAME_BATCHES = "same batches"
    SAME_UNION = "same union over ranks"


@dataclass(frozen=True, eq=False, repr=False)
class Rule:
    """Replace consecutive stages.

    Parameters
    ----------
    name
        The effect of the rule, for explain and error messages.
    pattern
        The types of the consecutive stages that it replaces. ``...`` between two of them is a gap: any number of
        stages, the fewest with which the rule applies. Empty for a rule on the whole plan, which is an exception: its
        file gives the reason.
    rewrite
        The function. It takes these stages, one argument each (those of a gap as a tuple), the facts before them and
        the machine. For the whole plan it takes a tuple of the stages, and a tuple of the facts before each of them and
        after all of them. It returns their replacement, or None if the rule does not apply.
    """

    name: str
    pattern: tuple[type[Stage] | EllipsisType, ...]
    rewrite: Callable[..., Window | None]

    def __post_init__(self) -> None:
        gaps = [position for position, kind in enumerate(self.pattern) if kind is ...]
        if len(gaps) > 1 or set(gaps) & {0, len(self.pattern) - 1}:
            raise UsageError(f"rule {self.name!r}: expected at most one gap, between two types, got {self.pattern}")

    @cached_property
    def ends(self) -> tuple[tuple[type[Stage], ...], tuple[type[Stage], ...] | None]:
        """The types before the gap and after it; without a gap all types and None."""
        if ... not in self.pattern:
            return cast(tuple[type[Stage], ...], self.pattern), None
        gap = self.pattern.index(...)
        return cast(Any, self.pattern[:gap]), cast(Any, self.pattern[gap + 1 :])


@dataclass(frozen=True, eq=False, repr=False)
class Pass:
    """A named, ordered list of rules with a promise.

    Parameters
    ----------
    name
        The name of its switch: ``plan.loader(name=False)`` turns it off.
    promise
        The promise: what it leaves unchanged.
    given
        Its rules, or the module with the rules as ``RULES``, which is loaded if the pass may apply.
    optional
        Whether the plan can run without it.
    on
        Whether it runs by default.
    needs_gpu
        Whether it never applies on a machine without a GPU.
    needs_ranks
        Whether it never applies with one rank.
    needs_module
        The module of a stage without which it never applies; while the module is not loaded, no plan has such a stage.
    needs_boundary
        Whether it never applies without a boundary of the source.
    """

    name: str
    promise: Promise
    given: tuple[Rule, ...] | str
    optional: bool = True
    on: bool = True
    needs_gpu: bool = False
    needs_ranks: bool = False
    needs_module: str | None = None
    needs_boundary: bool = False

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, tried in order, at all positions, until none applies."""
        rules: tuple[Rule, ...] = import_module(self.given).RULES if isinstance(self.given, str) else self.given
        return rules

    def may_apply(self, plan: Plan, machine: Machine) -> bool:
        """Whether it may apply to a plan for a machine."""
        return (
            (machine.gpus > 0 or not self.needs_gpu)
            and (machine.world_size > 1 or not self.needs_ranks)
            and (self.needs_module is None or self.needs_module in sys.modules)
            and (not self.needs_boundary or getattr(plan.stages[0], "boundary", None) is not None)
        )

    def apply(self, plan: Plan, machine: Machine) -> tuple[Plan, tuple[str, ...]]:
        """Return the rewritten plan and the names of the rules that fired, in order.

        Raises
        ------
        PlanError
            If the rules do not terminate.
        """
        if not self.may_apply(plan, machine):
            return plan, ()
        rewrites = _Rewrites(self.rules, plan, machine)
        most = MOST_REWRITES_PER_STAGE * len(plan.stages)
        while (name := rewrites.step()) is not None:
            if len(rewrites.fired) > most:
                raise PlanError(
                    f"pass {self.name}: rule {name!r} is in a circle; the plan is now\n{render(rewrites.stages, '  ')}"
                )
        return (Plan(rewrites.stages) if rewrites.fired else plan), tuple(rewrites.fired)


class _Rewrites:
    """The stages of a plan while the rules of a pass are applied to it."""

    def __init__(self, rules: tuple[Rule, ...], plan: Plan, machine: Machine) -> None:
        self.rules, self.machine = rules, machine
        self.stages = list(plan.stages)
        self.fired: list[str] = []
        # The facts before each stage, as far as rules have read them.
        self._facts = [Facts()]
        # The first positions of the windows that each rule has not tried: a rewrite creates new ones only around
        # itself, so that a pass over a chain of similar stages is linear in their number.
        self._unseen = [range(len(self.stages)) for _ in rules]

    def step(self) -> str | None:
        """Apply the first rule that applies, at its first position, and return its name; None if there is none."""
        for number, rule in enumerate(self.rules):
            # A rule on the whole plan has one window.
            starts = self._unseen[number] if rule.pattern else self._unseen[number][:1]
            for start in starts:
                if self._applies(rule, start, number):
                    self.fired.append(rule.name)
                    return rule.name
            self._unseen[number] = range(0)
        return None

    def _applies(self, rule: Rule, start: int, number: int) -> bool:
        if not rule.pattern:
            self.facts(len(self.stages))
            replacement = rule.rewrite(tuple(self.stages), tuple(self._facts), self.machine)
            if replacement is not None:
                self._replace(0, len(self.stages), replacement, number)
            return replacement is not None
        for length, window in self._windows(rule, start):
            replacement = rule.rewrite(*window, self.facts(start), self.machine)
            if replacement is not None:
                self._replace(start, length, _with_origin(replacement, self.stages[start : start + length]), number)
                return True
        return False

    def _windows(self, rule: Rule, start: int) -> Iterator[tuple[int, tuple[Stage | Window, ...]]]:
        """Yield the windows of a rule that begin at a stage: the number of stages of each, and the arguments."""
        head, tail = rule.ends
        first = tuple(self.stages[start : start + len(head)])
        if len(first) < len(head) or not all(map(isinstance, first, head)):
            return
        if tail is None:
            yield len(head), first
            return
        begin = start + len(head)
        for end in range(begin, len(self.stages) - len(tail) + 1):
            last = tuple(self.stages[end : end + len(tail)])
            if all(map(isinstance, last, tail)):
                yield end + len(tail) - start, (*first, tuple(self.stages[begin:end]), *last)

    def facts(self, position: int) -> Facts:
        """Return the facts before the stage at a position."""
        while len(self._facts) <= position:
            self._facts.append(self._facts[-1].behind(self.stages[len(self._facts) - 1]))
        return self._facts[position]

    def _replace(self, start: int, length: int, replacement: Window, number: int) -> None:
        known = self.facts(start + length)
        self._unseen[number] = range(start, len(self.stages))
        self.stages[start : start + length] = replacement
        del self._facts[start + 1 :]
        self._look_again(start, length, len(replacement))
        if not self.facts(start + len(replacement)).say_the_same_as(known):
            self._unseen = [range(min([start, *seen[:1]]), len(self.stages)) for seen in self._unseen]

    def _look_again(self, start: int, length: int, new_length: int) -> None:
        """Shift untried positions by the number of stages added or removed, and add all windows with a new stage."""
        for number, rule in enumerate(self.rules):
            old = self._unseen[number]
            reaches_far = not rule.pattern or rule.ends[1] is not None
            first = 0 if reaches_far else max(0, start - len(rule.pattern) + 1)
            stop = start + new_length
            if old:
                first, stop = min(first, old.start), max(stop, old.stop + new_length - length)
            self._unseen[number] = range(first, stop)


def _with_origin(replacement: Window, window: Sequence[Stage]) -> Window:
    """Return stages that replace others; new ones get the origin of the first of these."""
    old = {id(stage) for stage in window}
    return tuple(
        stage.made_of(window[0]) if id(stage) not in old and stage.origin is stage else stage for stage in replacement
    )
