"""Expand macro stages into simple stages."""

from __future__ import annotations

from headrace.pipeline.plan import Facts, Machine, MacroStage, Rule, Window


def _parts(macro: MacroStage, facts: Facts, machine: Machine) -> Window:
    del facts, machine
    return macro.parts()


RULES = (Rule("macro -> its parts", (MacroStage,), _parts),)
