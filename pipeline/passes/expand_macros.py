"""Expand macro stages into the simple stages they stand for."""

from __future__ import annotations

from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Pass, Promise, Rule, Window
from headrace.pipeline.plan.stage import MacroStage


def _parts(window: Window, machine: Machine) -> Window | None:
    del machine
    (macro,) = window
    return macro.parts() if isinstance(macro, MacroStage) else None


EXPAND_MACROS = Pass(
    "expand_macros",
    Promise.SAME_BATCHES,
    rules=(Rule("macro -> its parts", (MacroStage,), _parts),),
    optional=False,
)
