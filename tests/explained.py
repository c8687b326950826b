"""The parts of the text of `explain()`: the stages that run, and the passes that changed the plan."""

from __future__ import annotations

import re

import headrace as hr


def stages(text: str) -> list[str]:
    """The stages that run, with their parameters."""
    lines: list[str] = []
    for line in text.partition("\nplan as written\n")[0].splitlines()[1:]:
        if line.startswith("   "):  # the line before goes on
            lines[-1] += " " + line.strip()
        elif line.startswith("  "):
            lines.append(line.strip())
    return lines


def passes(text: str) -> list[str]:
    """The passes that changed the plan, in their order."""
    return re.findall(r"^pass (\w+) \(", text, re.MULTILINE)


def one_line(text: str) -> str:
    """The text without the ends of its lines, which depend on the lengths of names and numbers."""
    return " ".join(text.split())


def store_of(text: str, stage: str) -> str:
    """What the text says of the store that a stage of it reads."""
    (store,) = re.findall(r"store#\d+", stage)
    (described,) = re.findall(rf"^{store}: (.*(?:\n {{4}}.*)*)", text, re.MULTILINE)
    return one_line(described)


def names_of(text: str) -> list[str]:
    """The names of the stages that run."""
    return [re.match(r"\w+", stage).group() for stage in stages(text)]


def names(plan: hr.Plan, machine: hr.Machine | None = None, **switches: object) -> list[str]:
    """The names of the stages that run on a machine, by default on one with a single core."""
    return names_of(plan.explain(machine=hr.Machine() if machine is None else machine, **switches))
