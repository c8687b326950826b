"""Expand macro stages into simple stages."""

from __future__ import annotations

from headrace.pipeline.data.checks import is_of_headrace
from headrace.pipeline.plan import Facts, Machine, MacroStage, Rule, Window


def _parts(macro: MacroStage, facts: Facts, machine: Machine) -> Window:
    del facts, machine
    if is_of_headrace(macro):
        return macro.parts()
    from headrace.pipeline.plan.users_stage import checked_parts  # loaded where there is one

    return checked_parts(macro)


RULES = (Rule("macro -> its parts", (MacroStage,), _parts),)
