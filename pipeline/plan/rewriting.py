"""Running the passes over a plan, verifying between them, and showing what they did."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from headrace.pipeline.plan.arguments import unknown_argument
from headrace.pipeline.plan.errors import PlanError, UsageError
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.rules import Pass
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.plan.text import render
from headrace.pipeline.plan.verify import LOWERED, verify


@dataclass(frozen=True, eq=False, repr=False)
class PassRecord:
    """What one pass did: its name, its promise, the rules that fired and the plan afterwards; or why it did nothing."""

    name: str
    promise: str
    enabled: bool
    fired: tuple[str, ...]
    plan: Plan
    lacks_gpu: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Rewriting:
    """The user's plan, what each pass made of it, and the machine it was made for."""

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
        written = {id(stage): name for name, stage in zip(self.plan.names, self.plan.stages, strict=True)}
        ran = zip(self.final.names, self.final.stages, strict=True)
        return tuple(written.get(id(stage.origin), name) for name, stage in ran)

    def explain(self) -> str:
        """Return the plan, what each pass changed in it, and the plan that runs."""
        lines = ["plan", render(self.plan.stages, "  ")]
        before, idle = self.plan, list[str]()
        for record in self.records:
            if not record.fired:
                why = " (off)" if not record.enabled else " (no GPU)" if record.lacks_gpu else ""
                idle.append(f"{record.name}{why}")
                continue
            lines += _idle(idle)
            lines.append(f"pass {record.name} ({record.promise}): {'; '.join(_counted(record.fired))}")
            lines += _difference(before, record.plan)
            before, idle = record.plan, []
        lines += _idle(idle)
        lines += ["plan that runs", render(self.final.stages, "  "), "on " + str(self.machine)]
        places = ("CPU memory", *(f"cuda:{number}" for number in range(self.machine.gpus)))
        given = (self.machine.promised, *self.machine.gpu_promised)
        lines += [
            f"earlier caches of this process have {num_bytes:,} bytes of {place}"
            for place, num_bytes in zip(places, given, strict=False)
            if num_bytes
        ]
        return "\n".join(lines)


def rewrite(
    passes: Sequence[Pass], plan: Plan, machine: Machine, switches: Mapping[str, bool] | None = None
) -> Rewriting:
    """Apply all passes whose switch is on, in order.

    Parameters
    ----------
    passes
        The passes. The first one leaves what passes say alone.
    plan
        The plan as the user wrote it.
    machine
        The machine to plan for.
    switches
        Pass names to True or False; a pass that is not named is on or off by itself.

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
    for one in passes:
        enabled = switches.get(one.name, one.on)
        before, fired = current, tuple[str, ...]()
        if enabled:
            current, fired = one.apply(before, machine)
            try:
                if fired:
                    verify(current, LOWERED)
            except PlanError as error:
                raise PlanError(
                    f"pass {one.name} (rules {', '.join(fired) or 'none'}) broke the plan\n"
                    f"{render(before.stages, '  ')}"
                ) from error
        lacks_gpu = one.needs_gpu and not machine.gpus
        records.append(PassRecord(one.name, one.promise.value, enabled, fired, current, lacks_gpu))
    return Rewriting(plan, machine, tuple(records))


def _distinct(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Return the stages, with copies of those that stand there twice: where a stage comes from is an object."""
    seen: set[int] = set()
    distinct = []
    for stage in stages:
        distinct.append(copy(stage) if id(stage) in seen else stage)
        seen.add(id(stage))
    return tuple(distinct)


def _check_switches(passes: Sequence[Pass], switches: Mapping[str, bool]) -> None:
    optional = [one.name for one in passes if one.optional]
    for name, switch in switches.items():
        if name not in optional:
            others = [other for other in inspect.signature(Plan.loader).parameters if other not in ("plan", "passes")]
            raise unknown_argument("loader", name, (*others, *optional))
        if not isinstance(switch, bool):
            raise UsageError(f"loader: expected {name} to be True or False, the switch of a pass, got {switch!r}")


def _counted(names: tuple[str, ...]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name} x {names.count(name)}" for name in dict.fromkeys(names)]


def _idle(names: list[str]) -> list[str]:
    """Return a line for passes that changed nothing, if there are any."""
    return [f"nothing to do: {', '.join(names)}"] if names else []


def _difference(before: Plan, after: Plan) -> list[str]:
    """Return the stages that went (-) and came (+), with those right before and behind; none if all print alike."""
    old, new = (render(plan.stages).splitlines() for plan in (before, after))
    lines, last = [], len(old)
    changes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(1)
    for number, group in enumerate(changes):
        if number > 0 or group[0][1] > 0:
            lines.append("    ...")
        for kind, start, stop, new_start, new_stop in group:
            if kind == "equal":
                lines += [f"    {line}" for line in old[start:stop]]
            else:
                lines += [f"  - {line}" for line in old[start:stop]]
                lines += [f"  + {line}" for line in new[new_start:new_stop]]
        last = group[-1][2]
    return lines if last == len(old) else [*lines, "    ..."]
