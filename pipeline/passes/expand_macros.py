"""Expand macro stages into simple stages."""

from __future__ import annotations

from headrace.pipeline.plan import Facts, Machine, MacroStage, Rule, Window
from headrace.pipeline.plan.users_stage import checked_parts


def _parts(macro: MacroStage, facts: Facts, machine: Machine) -> Window:
    del facts, machine
    return checked_parts(macro)


RULES = (Rule("macro -> its parts", (MacroStage,), _parts),)
