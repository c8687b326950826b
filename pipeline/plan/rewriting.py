"""Running the passes over a plan, verifying between them, and showing what they did."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

from headrace.ops.errors import PlanError
from headrace.pipeline.plan.arguments import unknown_argument
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Plan, names_of
from headrace.pipeline.plan.rules import Pass, users_pass
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.plan.text import render
from headrace.pipeline.plan.verify import LOWERED, USERS, verify


@dataclass(frozen=True, eq=False, repr=False)
class PassRecord:
    """The effect of one pass: its name, its promise, the rules that fired, the plan afterwards; or why it had none."""

    name: str
    promise: str
    enabled: bool
    fired: tuple[str, ...]
    plan: Plan
    lacks_gpu: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Rewriting:
    """The user's plan, the plan after each pass, and the machine."""

    plan: Plan
    machine: Machine
    records: tuple[PassRecord, ...]

    @property
    def final(self) -> Plan:
        """The plan that runs."""
        return self.records[-1].plan

    @property
    def origins(self) -> tuple[str, ...]:
        """For each stage of the plan that runs the name, in the user's plan, of the stage that it was made of.

        A stage that a pass has added on its own account, such as a prefetch, goes by its own name.
        """
        return self.origins_of(self.final.stages)

    def origins_of(self, stages: Sequence[Stage]) -> tuple[str, ...]:
        """Return the same for stages of that plan, or for those inside one of them."""
        written = {id(stage): name for name, stage in zip(self.plan.names, self.plan.stages, strict=True)}
        ran = zip(names_of(stages), stages, strict=True)
        return tuple(written.get(id(stage.origin), name) for name, stage in ran)

    def explain(self, *, facts: bool = False) -> str:
        """Return a text with the plan that runs, the plan as written, and the changes of each pass."""
        from headrace.pipeline.plan.explain import explain

        return explain(self, facts=facts)


def rewrite(
    passes: Sequence[Pass], plan: Plan, machine: Machine, switches: Mapping[str, bool | Pass] | None = None
) -> Rewriting:
    """Apply all passes whose switch is on, in order.

    Parameters
    ----------
    passes
        The passes. The first one leaves lowered stages unchanged.
    plan
        The plan as the user wrote it.
    machine
        The machine to plan for.
    switches
        Pass names to True or False; a pass without a switch has its default. Passes of the user have other names; they
        run first, on the plan as it is written.

    Raises
    ------
    PlanError
        If a switch names no optional pass, the plan is not legal, or a pass makes it illegal.
    """
    switches = {} if switches is None else switches
    _check_switches(passes, switches)
    verify(plan)
    current = plan = Plan(_distinct(plan.stages))
    records = []
    own = [replace(one, name=name) for name, one in switches.items() if isinstance(one, Pass)]
    for one in (*own, *passes):
        switch = switches.get(one.name, one.on)
        enabled = switch.on if isinstance(switch, Pass) else switch
        before, fired = current, tuple[str, ...]()
        if enabled:
            current, fired = one.apply(before, machine)
        if fired:
            try:
                verify(current, USERS if one in own else LOWERED)
            except PlanError as error:
                raise PlanError(
                    f"pass {one.name} (rules {', '.join(fired)}) broke the plan\n{render(before.stages, '  ')}"
                ) from error
        lacks_gpu = one.needs_gpu and not machine.gpus
        records.append(PassRecord(one.name, one.promise.value, enabled, fired, current, lacks_gpu))
    return Rewriting(plan, machine, tuple(records))


def _distinct(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Return the stages, with copies of stages that occur twice, because origins are compared by identity."""
    seen: set[int] = set()
    distinct = []
    for stage in stages:
        distinct.append(copy(stage) if id(stage) in seen else stage)
        seen.add(id(stage))
    return tuple(distinct)


def _check_switches(passes: Sequence[Pass], switches: Mapping[str, bool | Pass]) -> None:
    optional = [one.name for one in passes if one.optional]
    for name, switch in switches.items():
        if isinstance(switch, Pass):
            if name in [one.name for one in passes]:
                raise PlanError(f"loader: expected another name for a pass of your own, headrace has a pass {name!r}")
            users_pass().check_rewrites(name, switch)
        elif name not in optional:
            others = [other for other in inspect.signature(Plan.loader).parameters if other not in ("plan", "passes")]
            raise unknown_argument("loader", name, (*others, *optional))
        elif not isinstance(switch, bool):
            raise PlanError(f"loader: expected {name} to be True or False, the switch of a pass, got {switch!r}")
