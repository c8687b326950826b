"""Expand macro stages into simple stages."""

from __future__ import annotations

from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Facts, Rule, Window
from headrace.pipeline.plan.stage import MacroStage


def _parts(macro: MacroStage, facts: Facts, machine: Machine) -> Window:
    del facts, machine
    return macro.parts()


RULES = (Rule("macro -> its parts", (MacroStage,), _parts),)
