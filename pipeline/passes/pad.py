"""Replace ``pad()`` by the stage that pads, which knows the plan of the batches before it."""

from __future__ import annotations

from headrace.pipeline.plan import Facts, Machine, Rule, Window
from headrace.pipeline.stages.pad import Pad


def _with_plan(pad: Pad, facts: Facts, machine: Machine) -> Window:
    return (pad.behind(facts.before, machine.world_size),)


RULES = (Rule("pad -> pad_batch, with the plan of the sizes", (Pad,), _with_plan),)
