"""Running the passes over a plan, verifying between them, and telling what they did."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.pipeline.arguments import unknown_argument
from headrace.pipeline.errors import PlanError, UsageError
from headrace.pipeline.machine import Machine
from headrace.pipeline.passes import PASSES
from headrace.pipeline.plan import render
from headrace.pipeline.stage import Stage
from headrace.pipeline.verify import verify


#: What `Stage.loader` takes beside switches.
_LOADER_PARAMETERS = tuple(name for name in inspect.signature(Stage.loader).parameters if name not in ("self", "passes"))


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
        """Return the plan before and after, pass by pass."""
        lines = ["plan", render(self.plan, "  ")]
        for record in self.records:
            heading = f"pass {record.name} ({record.promise})"
            if not record.enabled:
                lines.append(f"{heading}: off")
            elif not record.fired:
                lines.append(f"{heading}: nothing to do")
            else:
                lines.append(f"{heading}: {'; '.join(_counted(record.fired))}")
                lines.append(render(record.plan, "  "))
        lines.append("runs on " + str(self.machine))
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
