"""Running the passes over a plan, verifying between them, and telling what they did."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.pipeline.passes import PASSES
from headrace.pipeline.plan.arguments import unknown_argument
from headrace.pipeline.plan.errors import PlanError, UsageError
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import render
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.plan.verify import verify

#: What `Stage.loader` takes beside switches.
_LOADER_PARAMETERS = tuple(
    name for name in inspect.signature(Stage.loader).parameters if name not in ("self", "passes")
)


@dataclass(frozen=True)
class PassRecord:
    """What one pass did: its name, its promise, the rules that fired and the plan afterwards."""

    name: str
    promise: str
    enabled: bool
    fired: tuple[str, ...]
    plan: Stage


@dataclass(frozen=True)
class Rewriting:
    """The user's plan, what each pass made of it, and the machine it was made for."""

    plan: Stage
    machine: Machine
    records: tuple[PassRecord, ...]

    @property
    def final(self) -> Stage:
        """The plan that runs."""
        return self.records[-1].plan

    def explain(self) -> str:
        """Return the plan, what each pass changed in it, and the plan that runs."""
        lines = ["plan", render(self.plan, "  ")]
        before, idle = self.plan, list[str]()
        for record in self.records:
            if not record.fired:
                idle.append(record.name if record.enabled else f"{record.name} (off)")
                continue
            lines += _idle(idle)
            lines.append(f"pass {record.name} ({record.promise}): {'; '.join(_counted(record.fired))}")
            lines += _difference(before, record.plan)
            before, idle = record.plan, []
        lines += _idle(idle)
        lines += ["plan that runs", render(self.final, "  "), "on " + str(self.machine)]
        return "\n".join(lines)


def rewrite(plan: Stage, machine: Machine, switches: Mapping[str, bool] | None = None) -> Rewriting:
    """Apply all passes whose switch is on, in order.

    Parameters
    ----------
    plan
        The plan as the user wrote it.
    machine
        The machine to plan for.
    switches
        Pass names to True or False; a pass that is not named is on.

    Raises
    ------
    PlanError
        If a switch names no optional pass, the plan is not legal, or a pass makes it illegal.
    """
    switches = {} if switches is None else switches
    optional = [one.name for one in PASSES if one.optional]
    for name, switch in switches.items():
        if name not in optional:
            raise unknown_argument("loader", name, (*_LOADER_PARAMETERS, *optional))
        if not isinstance(switch, bool):
            raise UsageError(f"loader: expected {name} to be True or False, the switch of a pass, got {switch!r}")
    verify(plan)
    records = []
    current = plan
    for one in PASSES:
        enabled = switches.get(one.name, one.on)
        before, fired = current, tuple[str, ...]()
        if enabled:
            current, fired = one.apply(before, machine)
            try:
                verify(current, expanded=True)
            except PlanError as error:
                raise PlanError(
                    f"pass {one.name} (rules {', '.join(fired) or 'none'}) broke the plan\n{render(before, '  ')}"
                ) from error
        records.append(PassRecord(one.name, one.promise.value, enabled, fired, current))
    return Rewriting(plan, machine, tuple(records))


def _counted(names: tuple[str, ...]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name} x {names.count(name)}" for name in dict.fromkeys(names)]


def _idle(names: list[str]) -> list[str]:
    """Return a line for passes that changed nothing, if there are any."""
    return [f"nothing to do: {', '.join(names)}"] if names else []


def _difference(before: Stage, after: Stage) -> list[str]:
    """Return the stages that went (-) and came (+), with those right before and behind them."""
    old, new = (render(plan).splitlines() for plan in (before, after))
    lines = []
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
